const say = (message) => { $('message').textContent = message; };
let code = '';

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
  $('shown').hidden = false;
}

async function decide(approve) {
  $('approve').disabled = $('deny').disabled = true;
  try {
    const { status } = await fresh(() => call('POST', '/auth/device', { action: 'device_verify', user_code: code, approve }));
    $('shown').hidden = $('ask').hidden = true;
    say(status === 'approved' ? 'Approved. The device goes on by itself within seconds.' : 'Denied. The device has been told.');
  } catch (error) {
    say(error.name === 'NotAllowedError' ? 'The passkey was not used: cancelled, or none for this site.' : error.message);
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
  if (code) await look();
}
begin().catch((error) => say(error.message)).finally(() => { document.body.dataset.ready = 'yes'; });
