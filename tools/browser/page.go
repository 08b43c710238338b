package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for a page to do something.
const patience = 2 * time.Minute

// Page is a tab of a browser of its own, as a test uses it: whatever fails ends
// the test.
type Page struct {
	t        testing.TB
	chromium *Chromium
	session  string

	mu        sync.Mutex
	complaint []string
}

// Open starts a browser with one empty tab. Both end with the test, which fails
// if the page threw an exception or tried what its policy forbids.
func Open(t testing.TB) *Page {
	t.Helper()
	p := &Page{t: t}
	var err error
	if p.chromium, err = Start(context.WithoutCancel(t.Context()), t.TempDir(), p.event); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		said := p.chromium.Close()
		if t.Failed() {
			t.Logf("the browser said:\n%s", said)
		}
		if len(p.complaint) > 0 {
			t.Errorf("the page did what it must not:\n%s", strings.Join(p.complaint, "\n"))
		}
	})
	var target struct{ TargetID string }
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	return p
}

// event notes what a page must not do. That the server refused something is no
// complaint: pages react to it.
func (p *Page) event(_, method string, params json.RawMessage) {
	var complaint bool
	switch method {
	case "Runtime.exceptionThrown":
		complaint = true
	case "Log.entryAdded":
		var log struct {
			Entry struct{ Source, Level string }
		}
		complaint = json.Unmarshal(params, &log) == nil && log.Entry.Level == "error" && log.Entry.Source != "network"
	}
	if complaint {
		p.mu.Lock()
		p.complaint = append(p.complaint, method+" "+string(params))
		p.mu.Unlock()
	}
}

func (p *Page) call(method string, params map[string]any, into any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), patience)
	defer cancel()
	if err := p.chromium.Call(ctx, p.session, method, params, into); err != nil {
		p.t.Fatal(err)
	}
}

// Go opens an address.
func (p *Page) Go(address string) {
	p.t.Helper()
	var result struct{ ErrorText string }
	p.call("Page.navigate", map[string]any{"url": address}, &result)
	if result.ErrorText != "" {
		p.t.Fatalf("%s: %s", address, result.ErrorText)
	}
}

// Eval evaluates an expression, waits for it when it is a promise, and returns
// its value as JSON has it.
func (p *Page) Eval(expression string) any {
	p.t.Helper()
	var result struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &result)
	if result.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, result.ExceptionDetails)
	}
	return result.Result.Value
}

// wait is a promise of whether an expression gets true within half a second.
const wait = `new Promise((done) => {
	const end = performance.now() + 500;
	(function look() {
		let is = false;
		try { is = Boolean(%s); } catch {}
		if (is || performance.now() > end) done(is);
		else setTimeout(look, 10);
	})();
})`

// Wait waits until the expression is true. That it cannot be evaluated yet is
// as good as false: a page may be on its way.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var result struct{ Result struct{ Value any } }
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), patience)
		err := p.chromium.Call(ctx, p.session, "Runtime.evaluate",
			map[string]any{"expression": fmt.Sprintf(wait, expression), "awaitPromise": true, "returnByValue": true}, &result)
		cancel()
		// -32000: the page that was asked has given way to the next.
		if refusal, refused := errors.AsType[*Refusal](err); err != nil && (!refused || refusal.Code != -32000) {
			p.t.Fatal(err)
		}
		if result.Result.Value == true {
			return
		}
	}
	p.t.Fatalf("it never was that %s; the page shows:\n%v", expression, p.Eval("document.body.innerText"))
}

// Fill types text into the one element that the selector finds, over what is
// there.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Click(selector)
	p.Eval(fmt.Sprintf("document.querySelector(%q).select && document.querySelector(%q).select()", selector, selector))
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// Click clicks into the middle of the one visible element that the selector
// finds, as a mouse does.
func (p *Page) Click(selector string) {
	p.t.Helper()
	place, ok := p.Eval(fmt.Sprintf(`(() => {
		const all = document.querySelectorAll(%q);
		if (all.length !== 1) return all.length + ' elements';
		all[0].scrollIntoView({ block: 'center' });
		const r = all[0].getBoundingClientRect();
		return r.width && r.height ? [r.x + r.width / 2, r.y + r.height / 2] : 'it is hidden';
	})()`, selector)).([]any)
	if !ok || len(place) != 2 {
		p.t.Fatalf("cannot click %s: not one visible element", selector)
	}
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		params := map[string]any{"type": kind, "x": place[0], "y": place[1]}
		if kind != "mouseMoved" {
			params["button"], params["clickCount"] = "left", 1
		}
		p.call("Input.dispatchMouseEvent", params, nil)
	}
}

// Authenticator is one that Chromium plays: it has a passkey store and verifies
// its user, who always agrees.
type Authenticator struct {
	page *Page
	id   string
}

// Authenticator plugs one in.
func (p *Page) Authenticator() *Authenticator {
	p.t.Helper()
	p.call("WebAuthn.enable", nil, nil)
	var made struct{ AuthenticatorID string }
	p.call("WebAuthn.addVirtualAuthenticator", map[string]any{"options": map[string]any{
		"protocol": "ctap2", "ctap2Version": "ctap2_1", "transport": "internal", "hasResidentKey": true, "hasUserVerification": true,
		"isUserVerified": true, "automaticPresenceSimulation": true,
	}}, &made)
	return &Authenticator{page: p, id: made.AuthenticatorID}
}

// Credential is a passkey in an authenticator.
type Credential struct {
	CredentialID string // base64
	RPID         string
	UserHandle   string // base64
	SignCount    int64
}

// Credentials lists what the authenticator holds.
func (a *Authenticator) Credentials() []Credential {
	a.page.t.Helper()
	var held struct{ Credentials []Credential }
	a.page.call("WebAuthn.getCredentials", map[string]any{"authenticatorId": a.id}, &held)
	return held.Credentials
}

// Verifies says whether the user passes verification from now on.
func (a *Authenticator) Verifies(passes bool) {
	a.page.t.Helper()
	a.page.call("WebAuthn.setUserVerified", map[string]any{"authenticatorId": a.id, "isUserVerified": passes}, nil)
}

// Screenshot returns a PNG of the page.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	return shot.Data
}
