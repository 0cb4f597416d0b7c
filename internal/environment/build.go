//go:build linux

package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/room"
)

// The content of an environment's home.
const (
	venvDir          = "venv"
	scratchDir       = "tmp"
	packagesDir      = "packages" // in the scratch folder
	markerFile       = ".ready"
	requirementsFile = "requirements.txt"
	constraintsFile  = "constraints.txt"
	freezeFile       = "lock"
	logFile          = "build.log"
	buildLock        = ".building"
	// runLock is locked as long as programs of a build run, also where the Muster
	// that started them has ended.
	runLock     = ".running"
	reserveFile = ".reserved"
	useFile     = ".used"
)

// lockPoll is how often another process's build is looked at.
const lockPoll = 200 * time.Millisecond

// build is one environment being built.
type build struct {
	home, key    string
	python       interpreter
	requirements string
	// code is the store with the snapshot whose packages the requirements name: that of the namespace.
	code      Code
	namespace string
	snapshot  string
	// contents are the digests of these packages by their paths.
	contents map[string]string
	// secret has the netrc of the build; hide takes its passwords out of texts.
	secret string
	netrc  func(ctx context.Context, secret string) (string, error)
	hide   *strings.Replacer
	tell   func(State)
	now    func() time.Time

	// place runs the installer; environ are Muster's own variables, and the installer
	// gets some of them.
	place   *confinement.Confinement
	environ []string
	// user asked for the build, which is this user's alone. Nil: it is built by the user of builds, and shared.
	user *confinement.User
	// pinned installs wheels alone, each by its hash: no program of a package runs.
	pinned bool
	named  bool // PIP_CONFIG_FILE names a file

	held  *os.File // the lock
	log   *buildLog
	total int
	// noRoom is true once a program of the build has written that the disk is full.
	noRoom bool
}

func (b *build) path() string { return filepath.Join(b.home, venvDir) }

// scratch is where the installer unpacks: beside what it installs, where there has to
// be room anyway, and where nothing stays behind for good if it is killed.
func (b *build) scratch() string { return filepath.Join(b.home, scratchDir) }

func (b *build) say(format string, args ...any) {
	b.tell(State{Phase: Building, Key: b.key, Message: fmt.Sprintf(format, args...)})
}

// within runs a build for at most limit: the builder builds nothing else meanwhile.
func (b *build) within(ctx context.Context, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := b.run(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("it was not built within %s, which is as long as a build may take here", limit)
	}
	return err
}

// run builds the environment at its final place, since virtual environments
// hold their own path and cannot be moved.
func (b *build) run(ctx context.Context) error {
	if err := room.Check(filepath.Dir(b.home), 0); err != nil {
		return err
	}
	// 1. One builder a key, whichever process asks.
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer func() { _ = b.held.Close() }()
	if _, ok := readyAt(b.home); ok {
		note(b.home, reserveFile, b.now())
		return nil // somebody else built it meanwhile
	}
	// 2. Away with what an interrupted or failed build left.
	if err := b.shut(); err != nil {
		return err
	}
	for _, name := range []string{markerFile, venvDir, scratchDir} {
		if err := os.RemoveAll(filepath.Join(b.home, name)); err != nil {
			return fmt.Errorf("removing an unfinished environment: %w", err)
		}
	}
	err := b.makeFolders(ctx)
	if err == nil {
		err = b.install(ctx)
	}
	_ = os.RemoveAll(b.scratch())
	if err != nil && b.noRoom {
		err = full(errors.Join(unix.ENOSPC, err))
	}
	if err == nil {
		err = b.takeBack(ctx)
	}
	if err != nil {
		_ = os.RemoveAll(b.path())
		return err
	}
	// 3. Everything on disk before the marker says so.
	b.say("making the environment last on disk")
	return b.mark()
}

// takeBack makes this Muster's user the owner of all files of the installer.
func (b *build) takeBack(ctx context.Context) error {
	if b.user != nil {
		return nil // root walks through no folder that a user of the machine may change meanwhile
	}
	paths := []string{b.path(), filepath.Join(b.home, requirementsFile)}
	if _, bounds := Split(b.requirements); bounds != "" {
		paths = append(paths, filepath.Join(b.home, constraintsFile))
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, b.place.Take(ctx, path))
	}
	return errors.Join(errs...)
}

// makeFolders makes the two folders that the installer may write to.
func (b *build) makeFolders(ctx context.Context) error {
	// Mode 0600: no other user may lock the file.
	lock, err := os.OpenFile(filepath.Join(b.home, runLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("making folders for the installer: %w", full(err))
	}
	_ = lock.Close()
	for path, mode := range map[string]os.FileMode{b.scratch(): 0o700, b.path(): b.mode()} {
		if err := os.Mkdir(path, mode); err != nil {
			return fmt.Errorf("making folders for the installer: %w", full(err))
		}
		if err := b.give(path); err != nil {
			return err
		}
	}
	if b.user != nil {
		home := filepath.Join(b.scratch(), confinement.HomeFolder)
		if err := errors.Join(os.Mkdir(home, 0o700), b.give(home)); err != nil {
			return fmt.Errorf("making a home folder for the build: %w", full(err))
		}
	}
	if err := b.copyNetrc(ctx); err != nil {
		return err
	}
	return b.copySettings()
}

// copySettings gives the installer the administrator's settings of pip. It runs before
// all programs of the build, which may put links there.
func (b *build) copySettings() error {
	for at, path := range pipFiles(lookUp(b.environ)) {
		b.named = b.named || at == namedPipFile
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the settings of pip: %w", err)
		}
		to := filepath.Join(b.scratch(), confinement.HomeFolder, at)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("copying the settings of pip: %w", full(err))
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return fmt.Errorf("copying the settings of pip: %w", full(err))
		}
	}
	return b.giveAll(b.scratch())
}

// install makes the virtual environment and puts the packages in.
func (b *build) install(ctx context.Context) error {
	if err := b.layOutPackages(ctx); err != nil {
		return err
	}
	listed, err := b.writeRequirements()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(b.home, logFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the build's log: %w", full(err))
	}
	b.log = &buildLog{out: log, left: maxBuildLog}
	defer func() { _ = log.Close() }()

	if err := b.open(); err != nil {
		return err
	}
	b.say("making a virtual environment with Python %s", b.python.Version)
	words := &pipWords{}
	if err := b.command(ctx, words.line, b.python.Executable, "-m", "venv", b.path()); err != nil {
		return venvError(err, words, b.python)
	}
	pip := []string{filepath.Join(b.path(), "bin", "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"}
	if b.requirements != "" {
		watch := &pipProgress{tell: func(message string, done, total int) {
			b.total = total
			b.tell(State{Phase: Building, Key: b.key, Message: message, Done: done, Total: total})
		}, installed: func() int { return countInstalled(b.path()) }}
		words = &pipWords{}
		stop := watch.start(ctx)
		err := b.command(ctx, func(line string) { words.line(line); watch.line(line) },
			slices.Concat(pip, []string{"install", "--no-compile", "--progress-bar", "off", "--no-color"}, b.only(), listed)...)
		stop()
		if err != nil {
			return fmt.Errorf("installing the requirements: %s", words.explain(err))
		}
		if err := b.compile(ctx); err != nil {
			return err
		}
	}
	var frozen strings.Builder
	keep := func(line string) {
		if frozen.Len() < maxFrozen {
			frozen.WriteString(line + "\n")
		}
	}
	if err := b.command(ctx, keep, append(pip, "freeze", "--all")...); err != nil {
		return fmt.Errorf("listing what was installed: %w", err)
	}
	if err := os.WriteFile(filepath.Join(b.home, freezeFile), []byte(Mask(frozen.String())), 0o644); err != nil {
		return fmt.Errorf("writing what was installed: %w", full(err))
	}
	return nil
}

// layOutPackages copies the local packages into the build, each into a folder of its own. The build
// sees no other code, and the copies end with it.
func (b *build) layOutPackages(ctx context.Context) error {
	_, packages := Place(b.requirements, packagesDir)
	if len(packages.Paths) == 0 {
		return nil
	}
	if b.code == nil {
		return unread(packages.Paths)
	}
	b.say("copying the packages of the code")
	all := filepath.Join(b.scratch(), packagesDir)
	for i, at := range packages.Paths {
		if err := b.copyPackage(ctx, at, filepath.Join(all, packages.Folders[i]), packages.Names[i]); err != nil {
			return fmt.Errorf("copying the package ./%s: %w", at, full(err))
		}
	}
	// A folder may have come without the right to write, which builds need.
	err := filepath.WalkDir(all, func(at string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(at, 0o755)
		}
		return err
	})
	return errors.Join(err, b.giveAll(all))
}

// copyPackage copies a local package into a folder that holds it alone: a file into the folder, a
// folder by its name.
func (b *build) copyPackage(ctx context.Context, at, folder, name string) error {
	part, err := b.code.Part(b.namespace, b.snapshot, at)
	if err != nil {
		return err
	}
	if part.Digest != b.contents[at] {
		return fmt.Errorf("the code has %s at this path, and the environment was asked for with %s; start the job again", part.Digest, b.contents[at])
	}
	if err := CheckLocal(at, part); err != nil {
		return err
	}
	if part.Folder {
		folder = filepath.Join(folder, name)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	return b.code.CheckoutPart(ctx, b.namespace, b.snapshot, at, folder)
}

// writeRequirements writes the files for the installer, and returns its options for
// them. They may hold a password of an index.
func (b *build) writeRequirements() (listed []string, err error) {
	needed, bounds := Split(b.requirements)
	needed, _ = Place(needed, packagesDir)
	for _, part := range []struct{ option, name, text string }{{"-r", requirementsFile, needed}, {"-c", constraintsFile, bounds}} {
		file := filepath.Join(b.home, part.name)
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("writing the requirements: %w", err)
		}
		if part.text == "" && part.option == "-c" {
			continue
		}
		if err := os.WriteFile(file, []byte(part.text), 0o600); err != nil {
			return nil, fmt.Errorf("writing the requirements: %w", full(err))
		}
		if err := b.give(file); err != nil {
			return nil, err
		}
		listed = append(listed, part.option, file)
	}
	return listed, nil
}

// command runs a program of the build and hands over its lines. All processes of the
// program end with it, and with this Muster. They hold a lock until they have ended, so
// that no other build uses the folder.
func (b *build) command(ctx context.Context, line func(string), argv ...string) error {
	settings, files := installerEnviron(b.environ)
	if named := filepath.Join(b.scratch(), confinement.HomeFolder, namedPipFile); b.named {
		settings = append(settings, "PIP_CONFIG_FILE="+named)
	}
	confined, _ := b.place.Confined()
	p := confinement.Program{
		Argv: argv, Env: append(settings, cache(b.environ, confined)),
		Scratch: b.scratch(), Writable: []string{b.path()},
		Readable: slices.Concat(b.python.places(), files, []string{filepath.Join(b.home, requirementsFile), filepath.Join(b.home, constraintsFile)}),
		Hidden:   []string{filepath.Dir(b.home)}, Lock: filepath.Join(b.home, runLock), User: b.user,
	}
	return b.place.Run(ctx, p, func(text string) {
		if b.hide != nil {
			text = b.hide.Replace(text)
		}
		b.log.write(text)
		b.noRoom = b.noRoom || saysFull(text)
		line(text)
	})
}

// saysFull reports whether a line of Python or pip is the message of a full disk or quota.
func saysFull(line string) bool {
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if strings.Contains(line, fmt.Sprintf("[Errno %d]", int(errno))) {
			return true
		}
	}
	return false
}

const (
	// maxBuildLog and maxFrozen bound the kept output of programs, in bytes.
	maxBuildLog = 16 << 20
	maxFrozen   = 1 << 20
)

// buildLog keeps lines, without the passwords in them.
type buildLog struct {
	out  io.Writer
	left int
}

func (l *buildLog) write(text string) {
	text = Mask(text) + "\n"
	if l.left -= len(text); l.left >= 0 {
		_, _ = io.WriteString(l.out, text) // a log that is cut off fails no build
	}
}

// lock waits for the key's lock, in a folder that is the key's: it may have
// been pruned while it was waited for.
func (b *build) lock(ctx context.Context) error {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		if err := os.MkdirAll(b.home, 0o755); err != nil {
			return fmt.Errorf("making room for the environment: %w", full(err))
		}
		f, err := lockHome(b.home, unix.LOCK_EX)
		if err == nil {
			b.held = f
			return nil
		}
		if !errors.Is(err, errBusy) {
			return fmt.Errorf("locking the environment: %w", full(err))
		}
		b.say("another process is at work on this environment; waiting for it")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// mark says that the environment is complete.
func (b *build) mark() error {
	return markAt(b.home, marker{Path: b.path(), Python: b.python.Version, Created: b.now().UTC()})
}

// full says what to do about a disk that is full or read-only.
func full(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("the disk that holds Muster's data folder is full; free some space and try again: %w", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the disk that holds Muster's data folder is read-only: %w", err)
	}
	return err
}
