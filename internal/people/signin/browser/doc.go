// Package browser is a browser without pages, behind a reverse proxy, that signs in at a console by a
// provider (package idp). Only tests import it.
package browser
