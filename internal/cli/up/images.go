package up

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/cli/up/gallery"
	"github.com/muster-dev/muster/internal/node/image"
)

// lookFor bounds the question at the start whether containerd answers.
const lookFor = 2 * time.Second

// openImages makes the store of images, unless none can be run here. Whether
// containerd is there is asked for each pod: it may be started later.
func (m *machine) openImages(ctx context.Context) (err error) {
	switch able, reason := m.runtime.IsolationAvailable(ctx); {
	case m.config.Containerd == configuration.NoContainerd:
		m.noImages = "this Muster was told not to run images (containerd: none)"
	case os.Geteuid() != 0:
		m.noImages = "images can be run by root alone, and this Muster is not"
	case !able:
		m.noImages = "images need mounts of their own, and this machine does not allow them: " + reason
	default:
		m.images, err = image.Open(image.Options{Socket: m.config.Containerd, Owner: string(m.home)})
	}
	return err
}

// describeImages says what runs images, or why nothing does.
func (m *machine) describeImages(ctx context.Context) string {
	if m.images == nil {
		return "none: " + m.noImages
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	version, err := m.images.Check(ctx)
	if err != nil {
		return "none: " + err.Error()
	}
	return fmt.Sprintf("through containerd %s at %s", version, m.config.Containerd)
}

// asksForImages is true where somebody may wonder whether images can be run: a
// socket was named, or is there.
func (m *machine) asksForImages() bool {
	if m.config.Containerd != configuration.DefaultContainerd {
		return m.config.Containerd != configuration.NoContainerd
	}
	_, err := os.Stat(m.config.Containerd)
	return err == nil
}

// makeGallery says which images stages of pipelines can run in here.
func (m *machine) makeGallery() *gallery.Gallery {
	if m.images == nil {
		return gallery.New(nil, m.noImages, m.config.Images)
	}
	return gallery.New(m.images, "", m.config.Images)
}
