package spark

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// triesFile is, in the folder of a datum, beside the files of package shift, a byte for
// each try of the script, of whichever process.
const triesFile = "spark.tries"

// pause is how often something is looked for that nothing tells of: a file, or an
// address where somebody is about to listen.
const pause = 100 * time.Millisecond

// randomText is 32 random bytes, as settings take them.
func randomText() string {
	bytes := make([]byte, 32)
	_, _ = rand.Read(bytes) // which never fails
	return base64.URLEncoding.EncodeToString(bytes)
}

// makeSecret is the secret of a folder, made where there is none: a driver that is
// started again meets executors that have it. Where members share no folder, it came with
// the files.
func makeSecret(folder string) (string, error) {
	path := filepath.Join(folder, shift.SecretFile)
	text, err := os.ReadFile(path)
	if err == nil {
		return string(text), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the application's secret: %w", err)
	}
	made := randomText()
	if err := osfile.Replace(path, []byte(made), 0o600); err != nil {
		return "", fmt.Errorf("writing the application's secret: %w", err)
	}
	return made, nil
}

// theirs are the rights of what is for whoever started the members, who may be another
// user than theirs, as in an image.
const theirs = 0o644

// awaitSecret is the secret of a folder once the driver has made it.
func awaitSecret(ctx context.Context, folder string) (string, error) {
	for {
		text, err := os.ReadFile(filepath.Join(folder, shift.SecretFile))
		if err == nil {
			return string(text), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("reading the application's secret: %w", err)
		}
		if err := wait(ctx, pause); err != nil {
			return "", err
		}
	}
}

// wait waits, unless it is to stop.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ErrStopped
	}
}

// tried is how many tries of the script have begun.
func tried(folder string) (int, error) {
	info, err := os.Stat(filepath.Join(folder, triesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("counting tries: %w", err)
	}
	return int(info.Size()), nil
}

// begin notes that another try begins.
func begin(folder string) error {
	file, err := os.OpenFile(filepath.Join(folder, triesFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(".")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("noting a try: %w", err)
	}
	return nil
}

// empty removes what a try before has left in its output.
func empty(folder string) error {
	list, err := os.ReadDir(folder)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("clearing the output: %w", err)
	}
	return nil
}

// tidied leaves what is committed, in the output of a member that shares its folder with
// nobody.
func tidied(folder string) error {
	if err := uncommitted(folder); err != nil {
		return err
	}
	return tidy(folder)
}

// checksums begin so, as Hadoop writes them (ChecksumFileSystem).
var checksums = []byte("crc\x00")

// tidy removes the checksums that Hadoop keeps beside local files, .NAME.crc beside
// NAME: what is committed is known by its content.
func tidy(folder string) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		of, ok := strings.CutSuffix(e.Name(), ".crc")
		if !ok || !strings.HasPrefix(of, ".") || !e.Type().IsRegular() || !there(filepath.Join(filepath.Dir(path), of[1:])) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && bytes.HasPrefix(text, checksums) {
			err = os.Remove(path)
		}
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		return nil
	})
}

// pendingFolder is where Hadoop keeps what tasks write until it is committed
// (FileOutputCommitter): a folder for each attempt of an application, by its number.
const pendingFolder = "_temporary"

// strandedError says that tasks committed what nobody will bring to its place. It is the
// script's doing, and will be again.
type strandedError struct{ folder string }

func (e *strandedError) Error() string {
	return fmt.Sprintf("tasks committed into %s, and the driver, which should bring that to its place, does not have this folder: leave mapreduce.fileoutputcommitter.algorithm.version of the script at 2, by which tasks do so themselves", e.folder)
}

// lasting is the exit code, in an outcome, of what another try would not change; 0: it
// might.
func lasting(err error) int {
	if _, lacks := errors.AsType[*lackError](err); lacks {
		return shift.Unable
	}
	if _, stranded := errors.AsType[*strandedError](err); stranded || errors.Is(err, errUnlogged) {
		return shift.Unfit
	}
	return 0
}

// uncommitted removes what tasks have not committed. Where members share no folder, the
// driver removes it in its own alone. What tasks have committed and the driver would have
// had to move, by the first algorithm of Hadoop's, is a strandedError: then all stays.
func uncommitted(folder string) error {
	found, err := pending(folder)
	if err != nil {
		return err
	}
	for _, path := range found {
		if err := stranded(folder, path); err != nil {
			return err
		}
	}
	for _, path := range found {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing what was not committed: %w", err)
		}
	}
	return nil
}

// taskPrefix begins the name of what Hadoop keeps of a task that committed, in the folder
// of an attempt, until the driver commits all.
const taskPrefix = "task_"

// stranded is a strandedError where tasks committed into a folder for what is not
// committed yet.
func stranded(folder, pending string) error {
	attempts, err := os.ReadDir(pending)
	if err != nil {
		return fmt.Errorf("looking at what it wrote: %w", err)
	}
	for _, attempt := range attempts {
		list, err := os.ReadDir(filepath.Join(pending, attempt.Name()))
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.IsDir() && strings.HasPrefix(e.Name(), taskPrefix) }) {
			return &strandedError{folder: strings.TrimPrefix(pending, folder+string(filepath.Separator))}
		}
	}
	return nil
}

// pending are the folders below one where Hadoop keeps what is not committed yet.
func pending(folder string) (found []string, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		if !e.IsDir() || e.Name() != pendingFolder || path == folder {
			return nil
		}
		list, err := os.ReadDir(path)
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		if !slices.ContainsFunc(list, isAttempt) || slices.ContainsFunc(list, func(e fs.DirEntry) bool { return !isAttempt(e) }) {
			return nil // it is the script's
		}
		found = append(found, path)
		return fs.SkipDir
	})
	return found, err
}

// isAttempt says that a folder is that of an attempt of an application.
func isAttempt(e fs.DirEntry) bool {
	_, err := strconv.ParseUint(e.Name(), 10, 32)
	return err == nil && e.IsDir()
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// conclude notes what became of the application, so that it is known of whoever
// is there to be told.
func conclude(folder string, o shift.Outcome) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = osfile.Replace(filepath.Join(folder, shift.OutcomeFile), text, theirs)
	}
	if err != nil {
		return fmt.Errorf("noting what became of the script: %w", err)
	}
	return nil
}

// longest is how much is read of an outcome.
const longest = 1 << 20

// Outcome is what became of the application whose folder it is; false where its
// driver did not come to say so.
func Outcome(folder string) (o shift.Outcome, ok bool) {
	// Scripts may write there, and put a link or a pipe in its place.
	in, err := os.OpenRoot(folder)
	if err != nil {
		return o, false
	}
	defer func() { _ = in.Close() }()
	text, err := osfile.ReadRegular(in, shift.OutcomeFile, longest)
	return o, err == nil && json.Unmarshal(text, &o) == nil
}
