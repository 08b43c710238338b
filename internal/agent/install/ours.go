package install

import (
	"os"
	"slices"
	"strings"
)

// settings decide how the agent finds its server: no server may change them.
var settings = []string{ //nolint:gochecknoglobals // a constant list
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/environment",
	"/etc/default/certharbor-agent", "/etc/sysconfig/certharbor-agent", "/etc/conf.d/certharbor-agent", "/etc/init.d/certharbor-agent",
}

// ours says whether a path leads to a file of the agent itself, or to one that
// decides whom it asks. Files are known by what they are, not by their path
// alone: links lead to them, too.
func (e *Engine) ours(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		// The unit and its drop-ins, in any of the folders for them.
		if strings.HasPrefix(element, "certharbor-agent.service") || strings.HasPrefix(element, "certharbor-agent.timer") {
			return true
		}
	}
	if slices.Contains(e.Own, path) || slices.Contains(settings, path) {
		return true
	}
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, own := range slices.Concat(e.Own, settings) {
		if info, err := os.Stat(own); err == nil && os.SameFile(there, info) {
			return true
		}
	}
	return false
}
