//! More clients than the one that every product has.

use anyhow::Result;

use super::Product;
use super::client::Client;
use super::networks::{default_route, join};
use super::private_files::private_dir;
use super::soon::SOON;
use crate::link::Subnet;
use crate::namespace::Namespace;

/// Client `n` of a crowd, from 0, is behind the router by network 40 + n.
const CROWD_NETS: u8 = 40;

impl Product {
    /// So many more machines of the same actor behind the client's router, started together, and
    /// welcomed by the portal. They have used nothing yet.
    ///
    /// # Errors
    /// When a step fails, or there is a crowd already.
    pub fn crowd(&self, clients: u8) -> Result<Vec<Client>> {
        let mut crowd = Vec::new();
        for number in 0..clients {
            let mut client = self.member(number)?;
            self.portal
                .token("client --actor laptop", &client.token_file())?;
            client.launch()?;
            crowd.push(client);
        }
        for client in &crowd {
            client.is_welcomed_within(SOON)?;
        }
        Ok(crowd)
    }

    fn member(&self, number: u8) -> Result<Client> {
        let (namespace, net) = (Namespace::new()?, Subnet(CROWD_NETS + number));
        join(&self.nat, &namespace, net)?;
        default_route(&namespace, net)?;
        let name = format!("laptop-{}", number + 2);
        let mut client = Client::new(namespace, private_dir(&self.dir, &name)?);
        client.name = name;
        Ok(client)
    }
}
