package harvest

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/muster-dev/muster/internal/foreman/excerpt"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// Log makes an excerpt of the text from write the log of the datum of a folder, and returns its
// ending: that of the member with this name, if it has one. An error of write becomes the last line
// of the log.
func Log(folder, name string, write func(to io.Writer) error) (ending string, err error) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return "", fmt.Errorf("keeping a log: %w", err)
	}
	defer func() { _ = in.Close() }()
	log, err := excerpt.New(os.TempDir())
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }()
	if err := write(log); err != nil {
		_, _ = fmt.Fprintf(log, "[muster cannot read the rest: %v]\n", err)
	}
	file, err := osfile.CreateRegular(in, shift.LogFile, 0o600)
	if err != nil {
		return "", fmt.Errorf("keeping a log: %w", err)
	}
	kept, _ := log.Read()
	if _, err := io.Copy(file, kept); err != nil {
		return "", fmt.Errorf("keeping a log: %w", errors.Join(err, file.Close()))
	}
	return log.Ending(name), file.Close()
}
