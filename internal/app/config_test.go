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
	c, err := load(t, []string{"CERTHARBOR_LISTEN=127.0.0.1:2", "CERTHARBOR_DATA=from-env", "CERTHARBOR_HTTP01_LISTEN=:80", "CERTHARBOR_AGENT_STATE=/other/program"},
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

// A provider can stand in the file with its members below its name, in the
// environment and in flags as one text.
func TestProvidersInSettings(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, secret := filepath.Join(folder, "c.yaml"), filepath.Join(folder, "secret")
	content := "github:\n  client_id: Iv1.a\n  client_secret: hunter2\nweixin: app_id=wx1,app_secret=hunter2\noidc:\n" +
		"  - name: corp\n    issuer: https://id.example.org\n    client_id: c\n    client_secret_file: " + secret + "\n" +
		"  - name=other,issuer=https://id.example.net,client_id=c,client_secret=hunter2\nsolana: off\nprovider-allow-cidrs: [10.0.0.0/8]\n"
	for name, text := range map[string]string{file: content, secret: "hunter2,3\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := load(t, nil, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if len(c.OIDC) != 2 || c.Solana != "off" || len(c.ProviderAllowCIDRs) != 1 {
		t.Errorf("%+v", c)
	}
	shown := strings.Join(c.Shown(), "\n")
	for _, want := range []string{
		"github: client_id=Iv1.a,client_secret=(hidden)", "weixin: app_id=wx1,app_secret=(hidden)", "client_secret_file=" + secret, "solana: off", "provider-allow-cidrs: 10.0.0.0/8",
		"name=other,issuer=https://id.example.net,client_id=c,client_secret=(hidden)",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not in:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "hunter2") {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	c, err = load(t, []string{"CERTHARBOR_OIDC=name=a,issuer=https://a.example,client_id=1 name=b,issuer=https://b.example,client_id=2", "CERTHARBOR_GITHUB=client_id=a,client_secret=b"})
	if err != nil || len(c.OIDC) != 2 || c.GitHub == "" || c.Check() != nil {
		t.Errorf("%+v %v", c, err)
	}
	c, err = load(t, []string{"CERTHARBOR_OIDC=name=a,issuer=https://a.example,client_id=1"}, "--oidc", "name=b,issuer=https://b.example,client_id=2", "--oidc", "name=c,issuer=https://c.example,client_id=3")
	if err != nil || len(c.OIDC) != 2 || !strings.HasPrefix(c.OIDC[0], "name=b") {
		t.Errorf("%+v %v", c, err)
	}
	for setting, says := range map[string]string{"github: hunter2\n": "github: takes", "github:\n  client_secret: hunter2\n": "client_id: is required", "oidc:\n  - name: corp\n    client_secret: hunter2\n": "client_id: is required"} {
		if err := os.WriteFile(file, []byte(setting), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := load(t, nil, "--config", file)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if err := os.WriteFile(file, []byte("github:\n  client_id: a\n  client_secret: hunter2,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, nil, "--config", file); err == nil || !strings.Contains(err.Error(), "client_secret: must hold no comma") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// The settings that the README shows for providers are good.
func TestREADMEProviders(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "## Sign in with")
	_, text, _ := strings.Cut(section, "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	folder := t.TempDir() + "/"
	for _, name := range []string{"github", "weixin", "corp"} {
		if err := os.WriteFile(folder+name+".secret", []byte("secret of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := folder + "c.yaml"
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/etc/certharbor/", folder)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, nil, "--config", file)
	if err != nil || c.Check() != nil || !found || c.GitHub == "" || c.Weixin == "" || len(c.OIDC) != 1 || len(c.ProviderAllowCIDRs) != 1 {
		t.Errorf("%+v, %v, %v", c, err, c.Check())
	}
}

// Plain HTTP that other machines reach is warned of, at the start and by config
// check.
func TestPlainHTTPIsWarnedOf(t *testing.T) {
	t.Parallel()
	for listen, warned := range map[string]bool{
		"127.0.0.1:8080": false, "[::1]:1": false, "localhost:8080": false, "[::ffff:127.0.0.1]:1": false,
		":8080": true, "0.0.0.0:80": true, "[::]:80": true, "192.0.2.1:80": true, "certs.example.org:80": true,
	} {
		c, err := load(t, nil, "--listen", listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Warnings(); (len(got) == 1) != warned {
			t.Errorf("%s: %q", listen, got)
		}
		c.TrustedProxies = []string{"10.0.0.0/8"}
		if got := c.Warnings(); len(got) > 0 {
			t.Errorf("%s behind proxies: %q", listen, got)
		}
	}
}
