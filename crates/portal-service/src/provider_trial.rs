//! Identity providers that are tried out before anybody signs in by them.

use super::provider_fields::NewSecret;
use super::{Caller, Service};
use culvert_portal_auth::oidc::{ClientTrial, Oidc, SignInFault, Trial};
use culvert_portal_base::Fault;
use culvert_wire::api::NewProvider;

impl Service {
    /// Asks a provider that is not created yet for its metadata and its keys, and whether it takes the client. Nothing is
    /// written.
    ///
    /// # Errors
    /// [`Fault::Invalid`] with the field whose value the provider, or the way to it, does not accept.
    pub async fn try_provider(&self, caller: &Caller, new: NewProvider) -> Result<Trial, Fault> {
        caller.may_change()?;
        let (row, secret) = self.new_provider(caller, new).await?;
        self.check_again(caller).await?;
        let (actor, issuer) = (caller.actor()?, &row.issuer);
        tracing::info!(%actor, kind = "provider", issuer, "an identity provider is tested before it is saved");
        let secret = secret.as_ref().map(NewSecret::bytes);
        let trial = Oidc::try_out(&row, secret, &self.redirect_uri()).await;
        let trial = trial.map_err(fault_of)?;
        match trial.client {
            ClientTrial::Refused(said) => {
                let detail = format!("the provider refuses the client id or its secret: {said}");
                Err(Fault::invalid("client_id", detail))
            }
            ClientTrial::Accepted | ClientTrial::Unclear(_) => Ok(trial),
        }
    }
}

/// The fault at the field that it is about.
fn fault_of(fault: SignInFault) -> Fault {
    match fault {
        SignInFault::Away(detail) | SignInFault::Wrong(detail) => {
            // Of TLS: no authority that is believed has signed the certificate.
            let field = match detail.contains("certificate") {
                true => "ca",
                false => "issuer",
            };
            Fault::invalid(field, detail)
        }
        SignInFault::Portal(fault) => fault,
        other => Fault::invalid("issuer", other),
    }
}
