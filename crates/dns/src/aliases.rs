//! Chains of aliases that lead to names of resources.

use crate::name;
use crate::query::Question;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::wire::ParseError;
use domain::base::{Message, Name, ToName};
use domain::rdata::Cname;

/// Aliases that are followed: as many as resolvers follow (BIND 16, Unbound 11).
const ALIASES_MAX: usize = 16;

/// A chain of aliases that ends at a resource's name.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The targets of the CNAME chain from the question's name, in order; the last is the resource's name.
    pub(crate) aliases: Vec<Name<Vec<u8>>>,
    pub(crate) name: DomainName,
    pub(crate) resource: ResourceId,
}

/// A CNAME record.
struct Link {
    alias: Name<Vec<u8>>,
    target: Name<Vec<u8>>,
}

/// Follows the chain of aliases in an answer, up to the first name that belongs to a resource. Records of that name
/// in the answer are ignored, because the resource's gateway resolves it.
pub(crate) fn to_resource(
    message: &Message<[u8]>,
    question: &Question,
    resource_of: impl Fn(&DomainName) -> Option<ResourceId>,
) -> Result<Option<Chain>, ParseError> {
    if question.qtype() == Rtype::CNAME {
        // It asks for the alias itself.
        return Ok(None);
    }
    let mut links = Vec::new();
    for record in message.answer()?.limit_to_in::<Cname<ParsedName<_>>>() {
        let record = record?;
        let (alias, target) = (record.owner().to_vec(), record.data().cname().to_vec());
        links.push(Link { alias, target });
    }
    let mut aliases: Vec<Name<Vec<u8>>> = Vec::new();
    while aliases.len() < ALIASES_MAX {
        let at = aliases.last().unwrap_or(question.qname());
        let Some(link) = links.iter().find(|link| link.alias.name_eq(at)) else {
            return Ok(None);
        };
        aliases.push(link.target.clone());
        if let Some(name) = name::read(&link.target)
            && let Some(resource) = resource_of(&name)
        {
            return Ok(Some(Chain {
                aliases,
                name,
                resource,
            }));
        }
    }
    Ok(None)
}
