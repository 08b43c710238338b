package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"certharbor.dev/certharbor/internal/sqldb/dbtest"
)

// emptyPostgres makes a database without a single table and returns its address.
func emptyPostgres(t *testing.T) string {
	t.Helper()
	other := dbtest.PostgresConfig(t).URL
	u, err := url.Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	name := "empty_" + u.Path[1:]
	db, err := sql.Open("pgx", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil { //nolint:noctx // the context of the test is over
			t.Error(err)
		}
		db.Close()
	})
	u.Path = "/" + name
	return u.String()
}

// nodes starts n servers at once on one database, with one master key file.
func nodes(t *testing.T, n int, database, key string) []*server {
	t.Helper()
	var all []*server
	for range n {
		all = append(all, launch(t, setup{data: t.TempDir(), args: []string{"--db", database, "--master-key-file", key}}))
	}
	for _, s := range all {
		s.ready()
	}
	return all
}

// Three nodes start at once on an empty database: one migrates, one makes the
// master key, all of them serve.
func TestNodesStartTogetherOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	for range 3 {
		database, key := emptyPostgres(t), filepath.Join(t.TempDir(), "master.key")
		all := nodes(t, 3, database, key)
		newUser(t, "me@example.org", "--db", database, "--data", t.TempDir(), "--master-key-file", key)
		me := all[0].login("me@example.org")
		// What one node seals another opens.
		var account struct{ ID int64 }
		me.must("POST", "/apiv1/me/acme-accounts", map[string]any{"name": "x", "provider": "letsencrypt-staging"}, http.StatusCreated, &account)
		for _, s := range all {
			me.at(s).must("GET", fmt.Sprintf("/apiv1/me/acme-accounts/%d", account.ID), nil, http.StatusOK, nil)
		}
		for _, s := range all {
			s.stop()
		}
	}
}

// What one node does holds on the other at once.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	database, key := dbtest.PostgresConfig(t).URL, filepath.Join(t.TempDir(), "master.key")
	newUser(t, "me@example.org", "--db", database, "--data", t.TempDir(), "--master-key-file", key)
	both := nodes(t, 2, database, key)
	a, b := both[0], both[1]

	me := a.login("me@example.org")
	me.at(b).must("GET", "/auth/profile", nil, http.StatusOK, nil)

	// Begun on one, approved on the other, woken across.
	d, err := me.enrol(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	d.server = b
	poll := d.poll(t)
	begun := time.Now()
	config := fmt.Sprintf("/apiv1/me/devices/%d/install-config", d.ID)
	me.must("PUT", config, map[string]any{"installs": []any{map[string]any{"type": "exec", "cmd": "true"}}}, http.StatusOK, nil)
	if got := receive(t, poll); got != "200 <nil>" {
		t.Errorf("the poll on the other node: %s", got)
	}
	if took := time.Since(begun); took > 25*time.Second { // it would have ended by itself after 30
		t.Errorf("the poll on the other node was woken after %s", took)
	}
	me.at(b).must("GET", config, nil, http.StatusOK, nil)

	// A device that is removed on one is nobody on the other.
	me.at(b).must("DELETE", fmt.Sprintf("/apiv1/me/devices/%d", d.ID), nil, http.StatusNoContent, nil)
	for _, s := range both {
		d.at(s).refusedWith(t, "GET", "/apiv1/devices/self/updates", http.StatusForbidden, http.StatusUnauthorized)
	}

	// A logout ends the session everywhere, and only that one.
	again := b.login("me@example.org")
	me.must("POST", "/auth/logout", nil, http.StatusNoContent, nil)
	for _, s := range both {
		me.at(s).refusedWith(t, "GET", "/auth/profile", http.StatusUnauthorized)
		again.at(s).must("GET", "/auth/profile", nil, http.StatusOK, nil)
	}
	out, err := exec.CommandContext(t.Context(), "certharbor", "user", "disable", "--force", "me@example.org", "--db", database, "--data", t.TempDir(), "--master-key-file", key).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, s := range both {
		again.at(s).refusedWith(t, "GET", "/auth/profile", http.StatusUnauthorized)
	}

	// One that dies leaves the other alone.
	newUser(t, "you@example.org", "--db", database, "--data", t.TempDir(), "--master-key-file", key)
	a.kill()
	b.login("you@example.org").must("GET", "/auth/profile", nil, http.StatusOK, nil)
	verifyAudit(t, "--db", database, "--data", t.TempDir(), "--master-key-file", key)
	b.stop()
}

// refusedWith makes a request that has to be answered with one of the statuses.
func (c caller) refusedWith(t *testing.T, method, path string, statuses ...int) {
	t.Helper()
	a, err := c.send(t.Context(), method, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(statuses, a.Status) {
		t.Errorf("%s %s: %d %s, want %v", method, path, a.Status, a.Body, statuses)
	}
}
