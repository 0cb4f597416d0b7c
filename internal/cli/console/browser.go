package console

import (
	"context"
	"fmt"
	"html/template"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// browser returns the command that opens a file in the browser, or nil without a display.
func browser(getenv func(string) string) []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open"}
}

// leader is a page that leads to a link.
var leader = template.Must(template.New("leader").Parse(`<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={{.}}">
<title>Muster</title>
<a href="{{.}}">Muster</a>
`))

// writeLeader writes the page, which only its owner can read. It replaces the last one: links live for a
// minute.
func writeLeader(folder, link string) (string, error) {
	if err := osfile.MakeFolder(folder, 0o700); err != nil {
		return "", fmt.Errorf("making %s: %w", folder, err)
	}
	var page strings.Builder
	if err := leader.Execute(&page, link); err != nil {
		return "", err
	}
	file := filepath.Join(folder, "console.html")
	return file, osfile.Replace(file, []byte(page.String()), 0o600)
}

// start starts a program that may go on after this command.
func start(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...) //nolint:gosec // the commands of browser
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
