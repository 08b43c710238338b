const say = (message) => { $('message').textContent = message; };
let code = '';

const explain = (error) => (error.name === 'NotAllowedError' ? 'The passkey was not used: cancelled, or none for this site.' : error.message);
const label = (d) => `device ${d.id}, ${d.name}${d.platform ? ` (${d.platform})` : ''}`;
let devices = [];

function option(value, text) {
  const element = document.createElement('option');
  element.value = value;
  element.textContent = text;
  return element;
}

function button(text, action) {
  const element = document.createElement('button');
  element.type = 'button';
  element.textContent = text;
  element.addEventListener('click', async () => {
    try {
      say(await action());
      await list();
    } catch (error) {
      say(explain(error));
    }
  });
  return element;
}

// list shows the keys that wait.
async function list() {
  devices = await call('GET', '/apiv1/me/devices?limit=1000');
  const waiting = devices.filter((d) => d.pending_key);
  $('waiting').hidden = waiting.length === 0;
  $('keys').replaceChildren(...waiting.map((d) => {
    const item = document.createElement('li');
    const path = `/apiv1/me/devices/${d.id}/confirm-key`;
    const key = d.pending_key;
    const span = document.createElement('span');
    span.textContent = `${label(d)}: key ${key.device_keyfp_b64} from ${key.address}, calling itself ${key.name || 'nothing'}, ${new Date(key.created_at).toLocaleString()} `;
    item.append(
      span,
      button('Confirm', async () => { await fresh(() => call('POST', path, { device_keyfp_b64: key.device_keyfp_b64 })); return 'The key is confirmed.'; }),
      button('Refuse', async () => { await call('DELETE', path); return 'The key is refused.'; }),
    );
    return item;
  }));
}

async function look() {
  $('shown').hidden = true;
  say('');
  const login = await call('GET', `/auth/device?user_code=${encodeURIComponent(code)}`);
  $('code').textContent = login.user_code;
  $('name').textContent = [login.name, login.platform].filter(Boolean).join(', ') || 'nothing';
  $('ip').textContent = login.client_ip;
  $('agent').textContent = login.user_agent || 'unknown';
  $('scopes').textContent = login.scopes.join(', ') || 'being one of your devices';
  $('when').textContent = new Date(login.created_at).toLocaleString();
  $('which').replaceChildren(option('', 'a new device, or as it was'), ...devices.map((d) => option(d.id, `my ${label(d)}`)));
  if (login.device_id) $('which').value = String(login.device_id);
  $('which').disabled = login.device_public_id !== '';
  $('rekeys').hidden = !login.key_changed;
  $('shown').hidden = false;
}

async function decide(approve) {
  $('approve').disabled = $('deny').disabled = true;
  const body = { action: 'device_verify', user_code: code, approve };
  if (approve && $('which').value) body.device_id = Number($('which').value);
  try {
    const { status } = await fresh(() => call('POST', '/auth/device', body));
    $('shown').hidden = $('ask').hidden = true;
    say(status === 'approved' ? 'Approved. The device goes on by itself within seconds.' : 'Denied. The device has been told.');
  } catch (error) {
    say(explain(error));
  }
  $('approve').disabled = $('deny').disabled = false;
}

$('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  code = $('ask').elements.user_code.value.trim().toUpperCase();
  if (/^[A-Z0-9]{8}$/.test(code)) code = `${code.slice(0, 4)}-${code.slice(4)}`;
  look().catch((error) => say(error.message));
});
$('approve').addEventListener('click', () => decide(true));
$('deny').addEventListener('click', () => decide(false));

async function begin() {
  code = (new URLSearchParams(location.search).get('user_code') || '').toUpperCase();
  $('ask').elements.user_code.value = code;
  const status = await call('GET', '/auth/status');
  if (!status.authenticated) { // comes back here
    location.replace(`/account?to=${encodeURIComponent(`/device?user_code=${encodeURIComponent(code)}`)}`);
    return;
  }
  $('who').textContent = `You are ${status.user.email || status.user.name}.`;
  await list();
  if (code) await look();
}
begin().catch((error) => say(error.message)).finally(() => { document.body.dataset.ready = 'yes'; });
