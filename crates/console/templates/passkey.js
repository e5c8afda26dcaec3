// Asks the authenticator what a form asks, and sends the form with its answer. What is asked was made by the portal,
// which also checks what is answered: this only carries it.
(() => {
  "use strict";

  const KNOWS_PASSKEYS = "PublicKeyCredential" in window
    && "parseRequestOptionsFromJSON" in PublicKeyCredential;

  function say(form, text) {
    let alert = form.querySelector("p.alert");
    if (!alert) {
      alert = document.createElement("p");
      alert.className = "alert";
      alert.setAttribute("role", "alert");
      form.querySelector("h2").after(alert);
    }
    alert.textContent = text;
  }

  // The answer; each of both words is a method of navigator.credentials.
  function ask(kind, question) {
    if (kind === "create") {
      const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(question);
      return navigator.credentials.create({ publicKey });
    }
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(question);
    return navigator.credentials.get({ publicKey });
  }

  function why(error) {
    switch (error.name) {
      case "InvalidStateError": return "This authenticator has a passkey of yours already.";
      case "NotAllowedError": return "No passkey was given: it was called off, or took too long.";
      case "SecurityError": return "The browser gives no passkey to this address: open the portal under its name.";
      default: return "The browser gave no passkey: " + error.message;
    }
  }

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!KNOWS_PASSKEYS) {
        say(form, "This browser does not know passkeys, or the page is not at the portal's name.");
        return;
      }
      const button = form.querySelector("button");
      button.disabled = true;
      try {
        const answer = await ask(form.dataset.passkey, JSON.parse(form.dataset.question));
        form.elements.credential.value = JSON.stringify(answer.toJSON());
        // Past this listener, which would ask again.
        form.submit();
      } catch (error) {
        say(form, why(error));
        button.disabled = false;
      }
    });
  }
})();
