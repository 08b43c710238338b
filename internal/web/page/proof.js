'use strict';
const $ = (id) => document.getElementById(id);

class Refused extends Error {
  constructor(status, error) {
    super(error.what || `The server answered ${status}.`);
    this.key = error.key || '';
    this.code = error.code || 0;
    this.params = error.params || {};
  }
}

// call sends a request and returns the data of the answer.
async function call(method, path, body) {
  const init = { method, headers: {} };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  const answer = await fetch(path, init);
  if (answer.status === 204) return null;
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, content.error || {});
  return content.data;
}

// Browsers that are older than parse…FromJSON and toJSON get them by hand.
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
const listed = (list) => (list || []).map((c) => ({ ...c, id: bytes(c.id) }));

function request(o) {
  if (window.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON) return PublicKeyCredential.parseRequestOptionsFromJSON(o);
  return { ...o, challenge: bytes(o.challenge), allowCredentials: listed(o.allowCredentials) };
}

function asJSON(credential) {
  if (credential.toJSON) return credential.toJSON();
  const { response } = credential;
  const out = { id: credential.id, rawId: text(credential.rawId), type: credential.type, clientExtensionResults: {}, response: { clientDataJSON: text(response.clientDataJSON) } };
  if (response.attestationObject) {
    out.response.attestationObject = text(response.attestationObject);
    out.response.transports = response.getTransports ? response.getTransports() : [];
  } else {
    out.response.authenticatorData = text(response.authenticatorData);
    out.response.signature = text(response.signature);
    if (response.userHandle) out.response.userHandle = text(response.userHandle);
  }
  return out;
}

async function prove(what) {
  const options = await call('POST', `/auth/webauthn/${what}/options`);
  const credential = await navigator.credentials.get({ publicKey: request(options) });
  return call('POST', `/auth/webauthn/${what}/verify`, asJSON(credential));
}

// fresh runs an action, and again after a step-up when the server wants one.
async function fresh(action) {
  try {
    return await action();
  } catch (error) {
    if (error.key !== 'STEP_UP_REQUIRED') throw error;
    if (error.params.acr === 'aal2') await prove('step-up');
    else if ((await call('GET', '/auth/profile')).has_password) await passwordAgain();
    else await signInAgain();
    return action();
  }
}

// signInAgain is for people without password and passkey: they sign in where
// they did, and come back.
async function signInAgain() {
  await call('POST', '/auth/logout');
  location.replace(`/account?to=${encodeURIComponent(location.pathname + location.search)}`);
  return new Promise(() => {});
}

async function passwordAgain() {
  const dialog = $('password-dialog');
  const form = $('password-again');
  form.reset();
  dialog.returnValue = '';
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener('close', done, { once: true }));
  const password = form.elements.password.value;
  form.reset();
  if (dialog.returnValue !== 'go') throw new Error('Nothing was changed.');
  await call('POST', '/auth/step-up', { password });
}

