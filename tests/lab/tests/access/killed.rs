//! A client that is killed in the middle of setting its host up.

use crate::common::{SOON, access, host};
use culvert_lab::product::Product;
use culvert_lab::wait_until;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The `resolv.conf` of the client's machine before.
const RESOLV_CONF: &str = "nameserver 198.51.100.53\nsearch lan\n";

/// Far more than what is told of one set-up: some twenty addresses, rules and routes.
const MAX_STEPS: usize = 200;

/// A product whose client manages a `/etc/resolv.conf` of its own machine, and is not running.
struct Scene {
    product: Product,
    resolv_conf: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let mut product = Product::networks(1).unwrap();
        let etc = product.dir().join("etc");
        culvert_lab::run(&format!("cp -a /etc {}", etc.display())).unwrap();
        let resolv_conf = etc.join("resolv.conf");
        fs::write(&resolv_conf, RESOLV_CONF).unwrap();
        product.client.machine = format!("mount --bind {} /etc", etc.display());
        product.client.arguments = "--dns file".to_owned();
        product.begin(&access()).unwrap();
        product.client.stop().unwrap();
        Self {
            product,
            resolv_conf,
        }
    }

    /// All that a client changes on its machine.
    fn state(&self) -> (String, String) {
        let names = fs::read_to_string(&self.resolv_conf).unwrap();
        (host(&self.product.client.namespace), names)
    }

    fn comes_to_be(&self, wanted: &(String, String)) {
        let came = wait_until("the host as it should be", SOON, || self.state() == *wanted);
        came.unwrap_or_else(|error| panic!("{error}: {:?} instead of {wanted:?}", self.state()));
    }

    /// Starts the client and kills it once the host has told of this many changes. False where it was set
    /// up before that.
    fn is_killed_after(&mut self, changes: usize, wanted: &(String, String)) -> bool {
        let client = &mut self.product.client;
        let monitor = "ip -o monitor link address route rule";
        let monitor = client.namespace.spawn(monitor).unwrap();
        // It says nothing when it listens.
        std::thread::sleep(Duration::from_millis(50));
        client.launch().unwrap();
        let began = Instant::now();
        let mut was_told = false;
        while !was_told && began.elapsed() < SOON {
            was_told = monitor.output().lines().count() >= changes;
            let names = fs::read_to_string(&self.resolv_conf).unwrap_or_default();
            if !was_told && names == wanted.1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        client.kill().unwrap();
        was_told
    }
}

#[test]
fn a_client_that_is_killed_after_any_step_of_its_set_up_is_set_up_by_the_next_start_and_leaves_nothing()
 {
    let mut scene = Scene::new();
    let before = scene.state();
    assert_eq!(before.1, RESOLV_CONF);
    assert!(!before.0.contains("culvert"), "{}", before.0);
    scene.product.client.start().unwrap();
    wait_until("the resolver", SOON, || scene.state().1 != RESOLV_CONF).unwrap();
    let wanted = scene.state();
    scene.product.client.stop().unwrap();
    assert_eq!(scene.state(), before);
    let mut killed = 0;
    for changes in 1..MAX_STEPS {
        if !scene.is_killed_after(changes, &wanted) {
            break;
        }
        killed += 1;
        scene.product.client.start().unwrap();
        scene.comes_to_be(&wanted);
        scene.product.client.stop().unwrap();
        assert_eq!(scene.state(), before, "killed after {changes} changes");
    }
    eprintln!("killed {killed} times");
    assert!(killed > 5, "there are more steps than {killed}");
}
