package app

import (
	"net/http"

	"certharbor.dev/certharbor/internal/access"
	"certharbor.dev/certharbor/internal/web"
)

// mountFront sends whoever opens the bare address to the page that there is.
// It is also where a browser goes after signing in, until there is a console.
func mountFront(m *web.Mux) {
	web.Raw(m, "GET /", access.Public(), 0, func(w http.ResponseWriter, r *http.Request) error {
		http.Redirect(w, r, "/account", http.StatusFound)
		return nil
	})
}
