// An identity provider for tests: oidc-provider, an implementation that the OpenID Foundation has certified,
// with accounts out of a file, so that a test can change what it says of people. Signing in goes by its own
// pages. Consent is given for all clients, which are the test's own, unless it is to be asked for.
//
//   node provider.js CONFIGURATION
//
// CONFIGURATION is a file of JSON: `cert` and `key` (PEM), `clients` (metadata as RFC 7591 has it), `accounts`
// (a file of JSON: claims by subject), `address` (where it listens, and loopback unless that is said),
// `asks_consent`, `claims_in_id_token`, `client_auth_methods` (those that it knows), and `clock_ms` (how far its
// clock is off). It prints its issuer once it serves.

import { generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';

const options = JSON.parse(readFileSync(process.argv[2]));
const now = Date.now;
Date.now = () => now() + (options.clock_ms ?? 0);
const { Provider } = await import('oidc-provider');

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'of-this-run', use: 'sig', alg: 'RS256' };

const server = createServer({ cert: options.cert, key: options.key });
const address = options.address ?? '127.0.0.1';
server.listen(0, address, () => {
  const issuer = `https://${address}:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: options.clients,
    jwks: { keys: [jwk] },
    cookies: { keys: ['of a test'] },
    ...(options.client_auth_methods && { clientAuthMethods: options.client_auth_methods }),
    conformIdTokenClaims: !options.claims_in_id_token,
    claims: {
      openid: ['sub'],
      profile: ['name', 'preferred_username'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    async findAccount(_context, subject) {
      const claims = JSON.parse(readFileSync(options.accounts))[subject];
      return claims && { accountId: subject, claims: () => ({ ...claims, sub: subject }) };
    },
    ...(!options.asks_consent && { loadExistingGrant: consent }),
  });
  server.on('request', provider.callback());
  console.log(`issuer ${issuer}`);
});

async function consent({ oidc }) {
  const grant = new oidc.provider.Grant({
    clientId: oidc.client.clientId,
    accountId: oidc.session.accountId,
  });
  grant.addOIDCScope('openid profile email groups');
  await grant.save();
  return grant;
}

// Whoever started it holds its input open: it ends with them, however they end.
process.stdin.resume().on('end', () => process.exit());
