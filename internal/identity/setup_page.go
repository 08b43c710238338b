package identity

// The token stands after the # of the link, which browsers send to nobody.
const (
	setupStyle = `body{font-family:sans-serif;max-width:32em;margin:3em auto;padding:0 1em}
label{display:block;margin:1em 0}input{display:block;width:100%;padding:.4em;box-sizing:border-box}`
	setupScript = `
const form = document.forms[0], message = document.getElementById("message");
const token = new URLSearchParams(location.hash.slice(1)).get("token") || new URLSearchParams(location.search).get("token") || "";
history.replaceState(null, "", location.pathname);
addEventListener("hashchange", () => location.reload()); // the link was opened again in this tab
form.addEventListener("submit", async event => {
  event.preventDefault();
  message.textContent = "";
  try {
    const answer = await fetch("/auth/setup", {method: "POST", headers: {"Content-Type": "application/json"},
      body: JSON.stringify({token, email: form.email.value, password: form.password.value})});
    const body = await answer.json();
    message.textContent = answer.ok ? "The administrator " + body.data.user.email + " is made and signed in." : body.error.what;
    form.hidden = answer.ok;
  } catch (error) { message.textContent = String(error); }
});
`
	setupHTML = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Set up CertHarbor</title>
<style>/*style*/</style>
<h1>Set up CertHarbor</h1>
<p>Make the first administrator. The link works once.</p>
<form>
<label>E-mail address <input name="email" type="email" autocomplete="username" required></label>
<label>Password <input name="password" type="password" autocomplete="new-password" minlength="12" required></label>
<p>12 or more characters, among them an upper-case letter, a lower-case letter, a digit and another character.</p>
<button>Make the administrator</button>
</form>
<p id="message" role="status"></p>
<script>/*script*/</script>
</html>
`
)
