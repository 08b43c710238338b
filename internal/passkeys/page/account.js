function creation(o) {
  if (window.PublicKeyCredential && PublicKeyCredential.parseCreationOptionsFromJSON) return PublicKeyCredential.parseCreationOptionsFromJSON(o);
  return { ...o, challenge: bytes(o.challenge), user: { ...o.user, id: bytes(o.user.id) }, excludeCredentials: listed(o.excludeCredentials) };
}

function say(message, bad) {
  $('message').textContent = message;
  $('message').className = bad ? 'bad' : '';
}

// Where to go on once somebody has signed in: the one page that sends people here.
const onward = /^\/device(\?user_code=[A-Za-z0-9-]*)?$/.exec(new URLSearchParams(location.search).get('to') || '');

let user = null;

// on wires a form or button to an action; one runs at a time.
let busy = false;
function on(id, action) {
  const element = $(id);
  element.addEventListener(element.tagName === 'FORM' ? 'submit' : 'click', async (event) => {
    event.preventDefault();
    await run(() => action(element.tagName === 'FORM' ? Object.fromEntries(new FormData(element)) : {}, element));
  });
}

async function run(action) {
  if (busy) return;
  busy = true;
  say('…');
  let message = '';
  let failed = null;
  try {
    message = (await action()) || '';
  } catch (error) {
    failed = error;
  }
  try {
    await show();
  } catch (error) {
    failed = failed || error;
  }
  busy = false;
  say(failed ? explain(failed) : message, failed !== null);
}

function explain(error) {
  if (error.name === 'NotAllowedError') return 'The passkey was not used: cancelled, or none for this site.';
  if (error.name === 'InvalidStateError') return 'This device has a passkey for the account already.';
  return error.message;
}

function row(label, note, remove) {
  const item = document.createElement('li');
  const span = document.createElement('span');
  span.textContent = label;
  const small = document.createElement('small');
  small.textContent = note;
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Remove';
  button.addEventListener('click', () => run(remove));
  item.append(span, small, button);
  return item;
}

// Providers to sign in with: the browser goes there and comes back.
let offered = [];
const wallet = () => window.solana && window.solana.signMessage ? window.solana : null;

function choices(place, verb, list, action) {
  $(place).replaceChildren(...list.filter((p) => p.kind !== 'solana' || wallet()).map((p) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = `${verb} ${p.title}`;
    button.addEventListener('click', () => run(() => action(p)));
    return button;
  }));
}

function base58(raw) {
  const digits = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
  let number = raw.reduce((n, b) => n * 256n + BigInt(b), 0n);
  let out = '';
  for (; number > 0n; number /= 58n) out = digits[Number(number % 58n)] + out;
  return '1'.repeat(raw.findIndex((b) => b !== 0)) + out;
}

// signed asks for a message with send, has the wallet sign it and sends that.
async function signed(send) {
  const { publicKey } = await wallet().connect();
  const address = publicKey.toString();
  const { message } = await send({ address });
  const { signature } = await wallet().signMessage(new TextEncoder().encode(message), 'utf8');
  return send({ address, signature: base58([...signature]) });
}

async function signInWith(p) {
  if (p.kind !== 'solana') {
    location.assign(`${p.url}?to=/account`);
    return '…';
  }
  await signed((query) => call('GET', `${p.url}?${new URLSearchParams(query)}`));
  return 'Welcome.';
}

async function bindTo(p) {
  const ask = (body) => fresh(() => call('POST', `/auth/third-party-bindings/${p.provider}`, body));
  if (p.kind !== 'solana') {
    location.assign((await ask({ to: '/account' })).url);
    return '…';
  }
  await signed(ask);
  return 'The wallet was bound.';
}

const day = (ms) => (ms ? new Date(ms).toLocaleDateString() : 'never');

async function show() {
  const status = await call('GET', '/auth/status');
  user = status.authenticated ? status.user : null;
  if (user && onward) {
    location.replace(onward[0]);
    return;
  }
  $('who').textContent = user ? `${user.email || user.name} (${(status.amr || []).join(', ')}; ${status.acr})` : 'Not signed in.';
  $('outside').hidden = user !== null;
  $('inside').hidden = $('sign-out').hidden = user === null;
  if (!user) $('newcomers').hidden = (await call('GET', '/auth/general')).registration === 'closed';
  offered = await call('GET', '/auth/providers').catch(() => offered);
  choices('providers', 'Sign in with', offered, signInWith);
  if (!user) {
    $('token-line').hidden = true;
    $('token').textContent = '';
    return;
  }
  const [passkeys, keys, bindings] = await Promise.all([
    call('GET', '/auth/webauthn/credentials'), call('GET', '/apiv1/me/apikeys').catch(() => []), call('GET', '/auth/third-party-bindings').catch(() => []),
  ]);
  $('bindings').replaceChildren(...bindings.map((b) => row(
    `${b.provider}: ${b.name || b.subject}`, `bound ${day(b.created_at)}`,
    async () => { await fresh(() => call('DELETE', `/auth/third-party-bindings/${b.provider}`)); return 'The account was unbound.'; },
  )));
  choices('bind', 'Bind', offered.filter((p) => !bindings.some((b) => b.provider === p.provider)), bindTo);
  $('passkeys').replaceChildren(...passkeys.map((p) => row(
    p.name + (p.clone_warning ? ' – there may be a copy of it!' : ''),
    `${p.algorithm}${p.synced ? ', synced' : ''}, added ${day(p.created_at)}, used ${day(p.last_used_at)}`,
    async () => { await fresh(() => call('DELETE', `/auth/webauthn/credentials/${p.id}`)); return 'The passkey was removed.'; },
  )));
  $('keys').replaceChildren(...keys.map((k) => row(
    k.name, `until ${day(k.expires_at)}, used ${day(k.last_used_at)}`,
    async () => { await call('DELETE', `/apiv1/me/apikeys/${k.id}`); return 'The key was revoked.'; },
  )));
}

on('sign-in', async (form, element) => {
  await call('POST', '/auth/general', { action: 'login', ...form });
  element.reset();
  return 'Welcome.';
});
on('passkey-sign-in', async () => { await prove('login'); return 'Welcome.'; });
on('sign-out', async () => { await call('POST', '/auth/logout'); return 'Signed out.'; });
on('register', async (form, element) => {
  await call('POST', '/auth/general', { action: 'register', ...form });
  $('activate').elements.email.value = form.email;
  element.reset();
  return 'A mail with a code is on its way.';
});
on('activate', async (form, element) => {
  await call('POST', '/auth/general', { action: 'activate-user', ...form });
  $('sign-in').elements.email.value = form.email;
  element.reset();
  return 'Activated; now sign in.';
});
on('add-passkey', async (form, element) => {
  const options = await fresh(() => call('POST', '/auth/webauthn/register/options'));
  const credential = await navigator.credentials.create({ publicKey: creation(options) });
  await call('POST', '/auth/webauthn/register/verify', { ...asJSON(credential), name: form.name });
  element.reset();
  return 'The passkey was added.';
});
on('add-key', async (form, element) => {
  const [obtype, actions] = form.grant.split(':');
  const made = await fresh(() => call('POST', '/apiv1/me/apikeys', {
    name: form.name, expires_in_seconds: Number(form.days) * 86400, permissions: [{ obtype, obid: form.object, actions: actions.split(',') }],
  }));
  element.reset();
  $('token').textContent = made.token;
  $('token-line').hidden = false;
  return 'The key was made. Copy it now.';
});

if (!window.PublicKeyCredential) {
  $('passkey-sign-in').disabled = true;
  $('add-passkey').querySelector('button').disabled = true;
}
show().catch((error) => say(error.message, true)).finally(() => { document.body.dataset.ready = 'yes'; });
