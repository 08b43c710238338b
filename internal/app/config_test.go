package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"certharbor.dev/certharbor/internal/app"
)

func load(t *testing.T, environ []string, args ...string) (app.Config, error) {
	t.Helper()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return app.Load(f, environ)
}

func TestFlagWinsOverEnvironmentOverFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	content := "listen: 127.0.0.1:1\ndata: from-file\nlog-level: warn\nwebhook-allow-cidrs: [10.0.0.0/8]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, []string{"CERTHARBOR_LISTEN=127.0.0.1:2", "CERTHARBOR_DATA=from-env", "CERTHARBOR_HTTP01_LISTEN=:80", "CERTHARBOR_STATE=/other/program"},
		"--config", file, "--listen", "127.0.0.1:3")
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:3" || c.Data != "from-env" || c.LogLevel != "warn" || c.HTTP01Listen != ":80" || len(c.WebhookAllowCIDRs) != 1 {
		t.Errorf("%+v", c)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestMisspeltKeyOfTheFileIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, nil, "--config", file); err == nil || !strings.Contains(err.Error(), "lisen") {
		t.Errorf("%v", err)
	}
}

func TestCheckNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	c, err := load(t, nil, "--listen", "x", "--db", "mysql://x", "--base-url", "ftp://x", "--tls-cert", "x", "--session-cookie", "a b",
		"--webhook-allow-cidrs", "10.0.0.0", "--log-level", "loud", "--log-format", "xml", "--data", "")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Check()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"listen", "db", "base-url", "tls-cert", "session-cookie", "webhook-allow-cidrs", "log-level", "log-format", "data"} {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
	}
}

func TestShownSettingsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, db := range []string{"postgres://u:hunter2@h/d", "postgres://u:hunter2@:x:y/d"} {
		if c := (app.Config{DB: db}); strings.Contains(strings.Join(c.Shown(), "\n"), "hunter2") {
			t.Errorf("%s is shown", db)
		}
	}
}
