//go:build linux

package doctor

import (
	"context"
	"os"
	"time"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/node/image"
)

// images says whether pods that name an image of their own can be run. The
// containerd of the Muster that runs here is asked, else the one that the usual
// configuration names.
func images(ctx context.Context, home instance.Home, isolation bool, reason string) Finding {
	f := Finding{Check: "images", Verdict: Limited}
	socket, err := socketOf(home)
	switch {
	case err != nil:
		f.Says, f.Fix = err.Error(), "mend the file"
		return f
	case socket == configuration.NoContainerd:
		f.Verdict, f.Says = Good, "none are run, as configured (containerd: none)"
		return f
	case os.Geteuid() != 0:
		f.Says, f.Fix = "none can be run: muster is not root", "run muster as root; other jobs run in this machine's own files"
		return f
	case !isolation:
		f.Says, f.Fix = "none can be run: this machine does not allow mounts of their own: "+reason, "run muster on the machine itself, outside any container"
		return f
	}
	version, err := ask(ctx, socket)
	if err != nil {
		f.Says = "none can be run: " + err.Error()
		f.Fix = "other jobs run in this machine's own files and need none of that"
		return f
	}
	f.Verdict, f.Says = Good, "run through containerd "+version+" at "+socket
	return f
}

// socketOf is the socket that the Muster that runs here uses, else the one that
// the next would.
func socketOf(home instance.Home) (string, error) {
	if s, alive, err := home.Read(); err == nil && alive && s.Containerd != "" {
		return s.Containerd, nil
	}
	config, err := configuration.Load(home.Config(), false)
	return config.Containerd, err
}

func ask(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	store, err := image.Open(image.Options{Socket: socket})
	if err != nil {
		return "", err
	}
	defer func() { _ = store.Close() }()
	return store.Check(ctx)
}
