package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"

	"certharbor.dev/certharbor/internal/providers"
)

// signInSettings are the settings of the providers to sign in with, as they are
// written.
func (c Config) signInSettings() providers.Raw {
	return providers.Raw{GitHub: c.GitHub, Weixin: c.Weixin, OIDC: c.OIDC, Solana: c.Solana}
}

// flattenSignIn lets the members of a provider stand below its name in the YAML
// file: they become the one text that the flag takes.
func flattenSignIn(k *koanf.Koanf) error {
	for _, name := range []string{"github", "weixin", "solana"} {
		if nested, ok := k.Get(name).(map[string]any); ok {
			text, err := joinMembers(name, nested)
			if err != nil {
				return err
			}
			k.Delete(name)
			if err := k.Set(name, text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	list, ok := k.Get("oidc").([]any)
	if !ok {
		return nil
	}
	var texts []string
	for _, item := range list {
		switch item := item.(type) {
		case map[string]any:
			text, err := joinMembers("oidc", item)
			if err != nil {
				return err
			}
			texts = append(texts, text)
		case string:
			texts = append(texts, item)
		default:
			return errors.New("oidc: must be a list of providers")
		}
	}
	return k.Set("oidc", texts)
}

func joinMembers(setting string, members map[string]any) (string, error) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := fmt.Sprint(members[name])
		if _, ok := members[name].([]any); ok {
			value = strings.Trim(value, "[]") // of domains, separated by spaces
		}
		if strings.Contains(value, ",") {
			return "", fmt.Errorf("%s: %s: must hold no comma; a secret that does goes into a file, *_secret_file", setting, name)
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ","), nil
}
