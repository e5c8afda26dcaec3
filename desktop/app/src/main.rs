//! `culvert-desktop`: the window of the client's service.

mod options;
mod ui;

use gtk::glib;
use std::process::ExitCode;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)) {
        Ok(options::Parsed::Run(options)) => {
            let code = ui::run(options);
            match code == glib::ExitCode::SUCCESS {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        Ok(options::Parsed::Print(text)) => {
            // The caller may have closed standard output.
            let _unseen = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(text) => {
            let line = format!("culvert-desktop: {text}\n");
            let _unseen = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            ExitCode::from(2)
        }
    }
}
