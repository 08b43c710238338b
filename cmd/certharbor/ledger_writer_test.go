package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// writer makes one user's writes, one after the other, and notes them.
type writer struct {
	me     caller
	ledger *ledger
	number int64 // of the writer; names its objects
	next   int64 // object
	chain  string
	key    string

	devices map[int64]*device // those whose newest tokens are known
}

// objects of each kind that a writer uses again and again.
const poolSize = 12

// newWriter signs in. The user is made, unless no database is named.
func newWriter(t *testing.T, s *server, l *ledger, number int64, database ...string) *writer {
	t.Helper()
	email := fmt.Sprintf("w%d@example.org", number)
	if len(database) > 0 {
		newUser(t, email, database...)
	}
	w := &writer{me: s.login(email), ledger: l, number: number, devices: map[int64]*device{}}
	w.chain, w.key = selfSigned(t)
	return w
}

// run writes until there is no answer, which has to be the end of the server,
// or an answer that is not the one it should be, which it returns.
func (w *writer) run(ctx context.Context) *refused {
	for {
		err := w.step(ctx)
		if r, ok := errors.AsType[*refused](err); ok {
			return r
		}
		if err != nil {
			<-w.me.server.exited
			return nil //nolint:nilerr // no answer is what a kill looks like
		}
	}
}

// step makes one write of a random kind.
func (w *writer) step(ctx context.Context) error {
	n := w.number*1000 + mathrand.Int64N(poolSize)
	switch mathrand.IntN(6) {
	case 0:
		return w.webhook(ctx, n)
	case 1:
		return w.account(ctx, n)
	case 2:
		return w.certificate(ctx, n)
	case 3:
		return w.device(ctx, n)
	case 4:
		return w.install(ctx, n)
	default:
		return w.assign(ctx, n)
	}
}

// put makes the object, or changes it, or removes it.
func (w *writer) put(ctx context.Context, name, collection string, state string, create, update any) error {
	now, id := w.ledger.get(name)
	item := collection + "/" + strconv.FormatInt(id, 10)
	switch {
	case now == "":
		return w.ledger.write(name, state, func() (int64, error) {
			var made struct{ ID int64 }
			err := w.me.call(ctx, "POST", collection, create, http.StatusCreated, &made)
			return made.ID, err
		})
	case update == nil || mathrand.IntN(3) == 0:
		return w.ledger.write(name, "", func() (int64, error) {
			return 0, w.me.call(ctx, "DELETE", item, nil, http.StatusNoContent, nil)
		})
	default:
		return w.ledger.write(name, state, func() (int64, error) {
			return 0, w.me.call(ctx, "PUT", item, update, http.StatusOK, nil)
		})
	}
}

// fresh is a text that was never written before.
func (w *writer) fresh() string {
	w.next++
	return fmt.Sprintf("s%d-%d", w.number, w.next)
}

func (w *writer) webhook(ctx context.Context, n int64) error {
	domain := w.fresh() + ".example"
	body := map[string]any{
		"url": fmt.Sprintf("https://hooks.example.org/%d", n), "secret": webhookSecret,
		"scope": map[string]any{"type": "domain", "domain": domain},
	}
	return w.put(ctx, fmt.Sprintf("webhook %d", n), "/apiv1/me/service_webhooks", domain, body, body)
}

func (w *writer) account(ctx context.Context, n int64) error {
	name := w.fresh()
	body := map[string]any{"name": name, "email": fmt.Sprintf("a%d@example.org", n), "provider": "letsencrypt-staging"}
	return w.put(ctx, fmt.Sprintf("account %d", n), "/apiv1/me/acme-accounts", name, body, body)
}

// certificate imports one, which has a name of its own.
func (w *writer) certificate(ctx context.Context, n int64) error {
	name := fmt.Sprintf("certificate %d", n)
	if _, id := w.ledger.get(fmt.Sprintf("assignment %d", n)); id != 0 {
		return nil // it would go with the certificate
	}
	body := map[string]any{"action": "import", "cert_pem": w.chain, "private_key_pem": w.key, "organization": strconv.FormatInt(n, 10)}
	return w.put(ctx, name, "/apiv1/me/certificates", "imported", body, nil)
}

// device enrols one, which stays, or enrols it again, or rotates its token.
func (w *writer) device(ctx context.Context, n int64) error {
	known := w.devices[n]
	delete(w.devices, n) // until it is acknowledged
	return w.ledger.write(fmt.Sprintf("device %d", n), "ACTIVE", func() (int64, error) {
		var err error
		if known == nil || mathrand.IntN(3) == 0 {
			known, err = w.me.enrol(ctx, n)
		} else {
			known.server = w.me.server
			err = known.refresh(ctx)
		}
		if err != nil {
			return 0, err
		}
		w.devices[n] = known
		return known.ID, nil
	})
}

// install writes the install-config of a device.
func (w *writer) install(ctx context.Context, n int64) error {
	_, id := w.ledger.get(fmt.Sprintf("device %d", n))
	if id == 0 {
		return nil
	}
	command := w.fresh()
	path := fmt.Sprintf("/apiv1/me/devices/%d/install-config", id)
	return w.ledger.write(fmt.Sprintf("install %d", n), command, func() (int64, error) {
		body := map[string]any{"installs": []any{map[string]any{"id": "reload", "type": "exec", "cmd": command}}}
		return 0, w.me.call(ctx, "PUT", path, body, http.StatusOK, nil)
	})
}

// assign gives the n-th certificate to the n-th device, or takes it away.
func (w *writer) assign(ctx context.Context, n int64) error {
	_, device := w.ledger.get(fmt.Sprintf("device %d", n))
	_, cert := w.ledger.get(fmt.Sprintf("certificate %d", n))
	if device == 0 || cert == 0 {
		return nil
	}
	name := fmt.Sprintf("assignment %d", n)
	path := fmt.Sprintf("/apiv1/me/devices/%d/certificates", device)
	if now, _ := w.ledger.get(name); now != "" {
		return w.ledger.write(name, "", func() (int64, error) {
			return 0, w.me.call(ctx, "DELETE", fmt.Sprintf("%s/%d", path, cert), nil, http.StatusNoContent, nil)
		})
	}
	return w.ledger.write(name, "assigned", func() (int64, error) {
		return cert, w.me.call(ctx, "POST", path, map[string]any{"cert_id": cert}, http.StatusNoContent, nil)
	})
}

func selfSigned(t *testing.T) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "import.example.org"}, DNSNames: []string{"import.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}
