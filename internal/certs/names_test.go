package certs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"certharbor.dev/certharbor/internal/fault"
)

func TestNormalizeNameAccepts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for entry, want := range map[string]string{
		"example.com":                   "example.com",
		"WWW.Example.COM":               "www.example.com",
		"example.com.":                  "example.com",
		"*.example.com":                 "*.example.com",
		"*.Example.com.":                "*.example.com",
		"*.xn--mnchen-3ya.de":           "*.xn--mnchen-3ya.de",
		"münchen.de":                    "xn--mnchen-3ya.de",
		"MÜNCHEN.de":                    "xn--mnchen-3ya.de",
		"straße.de":                     "xn--strae-oqa.de",
		"例え.テスト":                        "xn--r8jz45g.xn--zckzah",
		"example。com":                   "example.com",
		"localhost":                     "localhost",
		"1password.com":                 "1password.com",
		"7.example":                     "7.example",
		"a.b.c.d.e":                     "a.b.c.d.e",
		long + ".example":               long + ".example",
		"10.0.0.1":                      "10.0.0.1",
		"2001:DB8:0:0:0:0:0:1":          "2001:db8::1",
		"::ffff:192.0.2.1":              "192.0.2.1",
		"127.0.0.1":                     "127.0.0.1",
		"0xyz.example":                  "0xyz.example",
		"ex\u00adample.com":             "example.com",
		"ｅｘａｍｐｌｅ.com":                   "example.com",
		strings.Repeat("a.", 126) + "b": strings.Repeat("a.", 126) + "b",
	} {
		got, problem := normalizeName(entry)
		if got != want || problem != "" {
			t.Errorf("%q: %q, %s; want %q", entry, got, problem, want)
		}
	}
}

func TestNormalizeNameRefuses(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", " ", ".", "..", "*", "*.", "*.com", "*.com.", "*.localhost", "*.*.example.com", "a.*.example.com",
		"w*.example.com", "*w.example.com", "＊.example.com", "*。example.com", "exa mple.com", " example.com", "example.com ",
		"example.com\x00", "example.com\x00.evil.example", "example.com/", "http://example.com", "example.com:443",
		"user@example.com", "exa_mple.com", "-a.example", "a-.example", "a..b", ".example.com", "example.com..",
		"example.com\n", "\"example.com\"", "example.com,www.example.com", "$(id).example.com", "../example.com",
		"1.2.3", "1.2.3.4.5", "1.2.3.999", "１.２.３.４", "0x7f.1", "0x7f000001", "2130706433", "1.2.3.4.", "01.02.03.04",
		"0.0.0.0", "::", "224.0.0.1", "ff02::1", "fe80::1%eth0", "[::1]", "10.0.0.0/8", "*.10.0.0.1", "::1::",
		"xn--a.example", "xn--", "ab--cd.example", "\u200b.example", "\xff\xfe.example", "a\u0301\u202e.example",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "b", "*." + strings.Repeat("a.", 126) + "b",
		strings.Repeat("x", 1<<20),
	} {
		if got, problem := normalizeName(entry); problem == "" || got != "" {
			t.Errorf("%.80q: accepted as %q", entry, got)
		} else if len(problem) > 400 {
			t.Errorf("%.80q: the error has %d characters", entry, len(problem))
		}
	}
}

func TestNormalizeNames(t *testing.T) {
	t.Parallel()
	names, err := NormalizeNames("Example.com", []string{"www.example.com", "EXAMPLE.com.", "www.EXAMPLE.com", "*.example.com", "10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"www.example.com", "example.com", "*.example.com", "10.0.0.1"}; !slices.Equal(names.SANs, want) {
		t.Errorf("SANs = %v", names.SANs)
	}
	if want := []string{"example.com", "www.example.com", "*.example.com", "10.0.0.1"}; !slices.Equal(names.All(), want) {
		t.Errorf("All = %v", names.All())
	}
	if names.FirstIP() != "10.0.0.1" || names.FirstWildcard() != "*.example.com" {
		t.Errorf("FirstIP %q, FirstWildcard %q", names.FirstIP(), names.FirstWildcard())
	}
	other, err := NormalizeNames("10.0.0.1", []string{"*.example.com", "www.example.com", "example.com"})
	if err != nil || other.SetKey() != names.SetKey() {
		t.Errorf("one set of names has two keys: %q, %q, %v", other.SetKey(), names.SetKey(), err)
	}
	fewer, err := NormalizeNames("10.0.0.1", []string{"*.example.com", "www.example.com"})
	if err != nil || fewer.SetKey() == names.SetKey() || fewer.FirstWildcard() == "" {
		t.Errorf("another set of names has the same key, %v", err)
	}
	if none, err := NormalizeNames("example.com", nil); err != nil || none.SANs == nil || none.FirstIP() != "" || none.FirstWildcard() != "" {
		t.Errorf("without sans: %+v, %v", none, err)
	}
}

func TestNormalizeNamesNamesTheBadEntry(t *testing.T) {
	t.Parallel()
	many := func(n int) []string {
		sans := make([]string, n)
		for i := range sans {
			sans[i] = fmt.Sprintf("n%d.example.com", i)
		}
		return sans
	}
	for name, test := range map[string]struct {
		domain string
		sans   []string
		start  string
	}{
		"domain":       {"not a name", nil, "domain_name: "},
		"empty domain": {"", []string{"example.com"}, "domain_name: "},
		"third san":    {"example.com", []string{"a.example", "b.example", "c d"}, `sans[2]: "c d" `},
		"101 names":    {"example.com", many(100), "sans[99]: "},
	} {
		_, err := NormalizeNames(test.domain, test.sans)
		f := fault.As(err)
		if f == nil || f.Code != fault.CodeInvalid || !strings.HasPrefix(f.What, test.start) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names, err := NormalizeNames("n0.example.com", append(many(100), many(100)...)); err != nil || len(names.All()) != MaxNames {
		t.Errorf("100 names, each twice: %v", err)
	}
}

func FuzzNormalizeName(f *testing.F) {
	for _, seed := range []string{"example.com", "*.Example.com.", "münchen.de", "::ffff:1.2.3.4", "xn--a", "*。x.y", "a\x00b", "1.2.3.", "＊.a.b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		name, problem := normalizeName(entry)
		if (name == "") == (problem == "") {
			t.Fatalf("%q: neither a name nor a problem, or both", entry)
		}
		if name == "" {
			return
		}
		if again, problem := normalizeName(name); again != name || problem != "" {
			t.Fatalf("%q becomes %q, which becomes %q (%s)", entry, name, again, problem)
		}
		if len(name) > 253 || strings.ToLower(name) != name || strings.ContainsAny(name, " \x00/\\,\"'\n") {
			t.Fatalf("%q becomes %q", entry, name)
		}
		for i, r := range name {
			if r > 126 || r == '*' && i > 0 {
				t.Fatalf("%q becomes %q", entry, name)
			}
		}
	})
}
