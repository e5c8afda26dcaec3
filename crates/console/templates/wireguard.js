// Makes the key pair of a WireGuard device in the browser. The form sends the public key alone. The private key waits in
// this tab's storage for the page that shows the file, encrypted with a key that goes with the form instead: neither the
// disk of this machine nor the portal has both.
(() => {
  "use strict";

  const STORED = "culvert-wireguard ";
  // A private key in PKCS #8 (RFC 8410, section 7): 16 bytes, and the key.
  const PKCS8_LEN = 48;
  const KEY_LEN = 32;
  const NONCE_LEN = 12;
  // From so many modules a side on, a code is drawn larger.
  const DENSE_SIDE = 80;
  // A browser reads the file a little after the click.
  const DOWNLOAD_WITHIN_MS = 10000;
  const PLACEHOLDER = /^PrivateKey = .*$/m;

  const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
  const fromBase64 = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

  async function keyPair() {
    const pair = await crypto.subtle.generateKey({ name: "X25519" }, true, ["deriveBits"]);
    const bytesOf = async (format, key) => new Uint8Array(await crypto.subtle.exportKey(format, key));
    const [pkcs8, publicKey] = [await bytesOf("pkcs8", pair.privateKey), await bytesOf("raw", pair.publicKey)];
    if (pkcs8.length !== PKCS8_LEN) throw new Error("the browser wrote the private key in another format");
    const privateKey = pkcs8.slice(PKCS8_LEN - KEY_LEN);
    pkcs8.fill(0);
    // As `wg genkey` writes it (RFC 7748, section 5): it is the same key.
    privateKey[0] &= 248;
    privateKey[31] = (privateKey[31] & 127) | 64;
    return { privateKey, publicKey };
  }

  async function canMakeKeys() {
    try {
      const { privateKey } = await keyPair();
      privateKey.fill(0);
      sessionStorage.setItem(STORED, "");
      sessionStorage.removeItem(STORED);
      return true;
    } catch {
      return false;
    }
  }

  // Of keys that were made before, and not used.
  function forgetKeys() {
    const names = Object.keys(sessionStorage).filter((name) => name.startsWith(STORED));
    names.forEach((name) => sessionStorage.removeItem(name));
  }

  // Makes a key for the device. Answers its public key, and the key that opens its private key in this tab.
  async function makeKey() {
    const { privateKey, publicKey } = await keyPair();
    const seal = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, true, ["encrypt"]);
    const iv = crypto.getRandomValues(new Uint8Array(NONCE_LEN));
    const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv }, seal, privateKey);
    privateKey.fill(0);
    const name = toBase64(publicKey);
    forgetKeys();
    sessionStorage.setItem(STORED + name, toBase64(iv) + " " + toBase64(new Uint8Array(sealed)));
    const exported = new Uint8Array(await crypto.subtle.exportKey("raw", seal));
    return { publicKey: name, seal: toBase64(exported) };
  }

  // The private key that was made in this tab for this public key; null if it is not here. It is here once.
  async function takeKey(publicKey, seal) {
    try {
      const stored = sessionStorage.getItem(STORED + publicKey);
      forgetKeys();
      if (!stored) return null;
      const [iv, sealed] = stored.split(" ").map(fromBase64);
      const key = await crypto.subtle.importKey("raw", fromBase64(seal), "AES-GCM", false, ["decrypt"]);
      const opened = new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv }, key, sealed));
      const privateKey = toBase64(opened);
      opened.fill(0);
      return privateKey;
    } catch {
      return null;
    }
  }

  // The choice of the form: a key that is made here, or one that the device has.
  async function offer(choice) {
    const form = choice.closest("form");
    const [choices, own, unable, failed] = ["choices", "own", "unable", "failed"]
      .map((name) => choice.querySelector("." + name));
    const field = own.querySelector("input");
    if (!(await canMakeKeys())) {
      unable.hidden = false;
      return;
    }
    const radios = [...choices.querySelectorAll("input")];
    const isMade = () => radios.some((radio) => radio.checked && radio.value === "made");
    const show = () => {
      own.hidden = isMade();
      field.required = !isMade();
    };
    for (const radio of radios) {
      radio.disabled = false;
      radio.addEventListener("change", show);
    }
    choices.hidden = false;
    show();
    form.addEventListener("submit", async (event) => {
      if (!isMade()) return;
      event.preventDefault();
      const button = form.querySelector("button[type=submit]");
      button.disabled = true;
      failed.hidden = true;
      try {
        const made = await makeKey();
        field.value = made.publicKey;
        form.elements.seal.value = made.seal;
        // Past this listener, which would make another key.
        form.submit();
      } catch {
        failed.hidden = false;
        button.disabled = false;
      }
    });
  }

  function download(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), DOWNLOAD_WITHIN_MS);
  }

  // The file, with the private key if it was made in this tab.
  async function complete(section) {
    const text = section.querySelector("pre");
    const find = (name) => section.querySelector("." + name);
    const button = find("download");
    button.addEventListener("click", () => download(section.dataset.file, text.textContent));
    button.hidden = false;
    if (!section.dataset.seal) return;
    const privateKey = await takeKey(section.dataset.publicKey, section.dataset.seal);
    if (!privateKey) {
      find("lost").hidden = false;
      return;
    }
    text.textContent = text.textContent.replace(PLACEHOLDER, "PrivateKey = " + privateKey);
    const code = culvertQr(text.textContent);
    if (code) {
      const picture = find("scan svg");
      picture.setAttribute("viewBox", `0 0 ${code.side} ${code.side}`);
      picture.querySelector("path").setAttribute("d", code.path);
      picture.classList.toggle("dense", code.side > DENSE_SIDE);
    }
    find("scan").hidden = code === null;
    find("too-long").hidden = code !== null;
    find("once").hidden = false;
    find("fill-in").hidden = true;
  }

  document.querySelectorAll("fieldset.key").forEach(offer);
  document.querySelectorAll(".device-file").forEach(complete);
})();
