package installs

import (
	"slices"
	"strings"
)

const maxPath = 4096

// pathProblem says what is wrong with the target of one file, or "". A target
// is empty (the file is skipped) or the absolute path of a file, on a POSIX
// system or on Windows, and never steps upwards.
func pathProblem(path string) string {
	switch {
	case path == "":
		return ""
	case len(path) > maxPath:
		return "is longer than 4096 bytes"
	case hasControl(path):
		return "must not hold control characters such as NUL or newline"
	case !absolute(path):
		return `must be an absolute path, or "" to skip the file`
	}
	parts := splitPath(path)
	if slices.Contains(parts, "..") {
		return "must not step upwards with .."
	}
	if last := parts[len(parts)-1]; last == "" || last == "." {
		return "must name a file, not a folder"
	}
	return ""
}

func absolute(path string) bool {
	return path[0] == '/' || windows(path)
}

// windows reports whether path is absolute there: C:\x, C:/x, \\server\x.
func windows(path string) bool {
	if strings.HasPrefix(path, `\\`) {
		return true
	}
	letter := path[0] | 0x20
	return len(path) >= 3 && letter >= 'a' && letter <= 'z' && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

// splitPath takes the backslash as a separator too, wherever the path leads:
// a name with a backslash is not worth a doubt about "..".
func splitPath(path string) []string {
	return strings.Split(strings.ReplaceAll(path, `\`, "/"), "/")
}

// joinFolder gives the path of a file in a folder, in the folder's own style.
func joinFolder(folder, name string) string {
	separator := "/"
	if windows(folder) && strings.Contains(folder, `\`) {
		separator = `\`
	}
	return strings.TrimRight(folder, `/\`) + separator + name
}
