package providers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter,2=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Parse(Raw{
		GitHub: "client_id=a, client_secret_file=" + file,
		Weixin: "app_id=wx1,app_secret=hunter2",
		OIDC:   []string{"name=corp,issuer=https://id.example.org/realms/x,client_id=c,client_secret=d", "name=other,issuer=https://id.example.net/,client_id=c,title=The other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.GitHub.ClientSecret != "hunter,2=x" || s.GitHub.APIURL != "https://api.github.com" || s.Weixin.APIURL != "https://api.weixin.qq.com" ||
		s.OIDC[0].Title != "corp" || s.OIDC[1].Issuer != "https://id.example.net/" || s.OIDC[1].Title != "The other" || !s.Solana {
		t.Errorf("%+v %+v %+v", s.GitHub, s.Weixin, s.OIDC)
	}
	s, err = Parse(Raw{GitHub: "client_id=a,client_secret=b,url=https://git.example.org/", Solana: "off"})
	if err != nil || s.GitHub.URL != "https://git.example.org" || s.GitHub.APIURL != "https://git.example.org/api/v3" || s.Solana {
		t.Errorf("%+v %v", s.GitHub, err)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, c := range map[string]struct {
		raw  Raw
		says string
	}{
		"no secret":              {Raw{GitHub: "client_id=a"}, "github: client_secret: is required"},
		"an unknown member":      {Raw{GitHub: "client_id=a,client_secrt=" + secret}, "github: takes name=value"},
		"a comma in the secret":  {Raw{GitHub: "client_id=a,client_secret=x," + secret}, "*_secret_file"},
		"a member twice":         {Raw{GitHub: "client_id=a,client_id=b,client_secret=" + secret}, "client_id: is there twice"},
		"no file":                {Raw{GitHub: "client_id=a,client_secret_file=/nowhere/at/all"}, "client_secret_file: open"},
		"plain http":             {Raw{GitHub: "client_id=a,client_secret=" + secret + ",url=http://git.example.org"}, "url: must be https"},
		"a password in the URL":  {Raw{GitHub: "client_id=a,client_secret=x,url=https://u:" + secret + "@git.example.org"}, "url: must be https"},
		"no app":                 {Raw{Weixin: "app_secret=" + secret}, "weixin: app_id: is required"},
		"no issuer":              {Raw{OIDC: []string{"name=a,client_id=b"}}, "oidc: issuer: is required"},
		"an issuer that is none": {Raw{OIDC: []string{"name=a,client_id=b,issuer=ftp://x"}}, "oidc: issuer: must be https"},
		"a name that is taken":   {Raw{OIDC: []string{"name=github,client_id=b,issuer=https://x.example"}}, "oidc: name: must be"},
		"a name that is a path":  {Raw{OIDC: []string{"name=a/b,client_id=b,issuer=https://x.example"}}, "oidc: name: must be"},
		"a name twice":           {Raw{OIDC: []string{"name=a,client_id=b,issuer=https://x.example", "name=a,client_id=b,issuer=https://y.example"}}, `"a" is there twice`},
		"solana":                 {Raw{Solana: "maybe"}, "solana: must be on or off"},
		"not a setting at all":   {Raw{GitHub: secret}, "github: takes name=value"},
	} {
		_, err := Parse(c.raw)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShownSettingsHideSecrets(t *testing.T) {
	t.Parallel()
	for setting, shown := range map[string]string{
		"": "", "client_id=a,client_secret=hunter2,url=https://x": "client_id=a,client_secret=(hidden),url=https://x",
		"app_id=a, app_secret =hunter2": "app_id=a, app_secret =(hidden)", "client_secret=x,hunter2": "(hidden)", "hunter2": "(hidden)",
		"client_secret_file=/run/secret,client_id=a": "client_secret_file=/run/secret,client_id=a",
	} {
		if got := Shown(setting); got != shown {
			t.Errorf("%q is shown as %q", setting, got)
		}
	}
}
