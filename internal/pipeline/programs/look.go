package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Verb is the first argument of a program that looks as another user: see [Main].
const Verb = "look"

// Request asks about files of this machine.
type Request struct {
	// Commands are those of a stage. Programs are looked for in PATH, and in Environment first.
	Commands []Command `json:"commands,omitempty"`
	// Environment is the folder of a Python environment; empty: none.
	Environment string `json:"environment,omitempty"`
	// Packages asks for the packages of the environment in place of the files of commands.
	Packages bool `json:"packages,omitempty"`
}

// Answer answers a [Request].
type Answer struct {
	// Files are the files that the commands run, in the order of their paths.
	Files []File
	// Packages are those of the environment with their versions, in order.
	Packages []string
}

// Look looks with the rights of this process.
func Look(ctx context.Context, r Request) (a Answer, err error) {
	if r.Packages {
		a.Packages, err = Installed(r.Environment)
		return a, err
	}
	path := filepath.SplitList(os.Getenv("PATH"))
	if r.Environment != "" {
		path = slices.Insert(path, 0, filepath.Join(r.Environment, "bin"))
	}
	for _, c := range r.Commands {
		c.Path = path
		found, err := Find(ctx, c)
		if err != nil {
			return Answer{}, err
		}
		a.Files = append(a.Files, found...)
	}
	slices.SortFunc(a.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	a.Files = slices.CompactFunc(a.Files, func(a, b File) bool { return a.Path == b.Path })
	return a, nil
}

// mostWord is the longest argument of [Request.Words], in bytes. The kernel allows 128 KiB.
const mostWord = 96 << 10

// Words are the arguments of a program that looks: [Verb], and the request in parts.
func (r Request) Words() ([]string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := []string{Verb}
	for part := range slices.Chunk(text, mostWord) {
		out = append(out, string(part))
	}
	return out, nil
}

// line is one line of what a program that looks prints. A line has a file, a package or an error, so none
// grows with the number of files.
type line struct {
	File    *File  `json:"file,omitempty"`
	Package string `json:"package,omitempty"`
	Error   string `json:"error,omitempty"`
	// End is the last line of an answer that is whole.
	End bool `json:"end,omitempty"`
}

// Main looks with the rights of this process, as arguments of [Request.Words] without the verb ask for, and
// prints the answer for [Read]. It returns the exit code.
func Main(ctx context.Context, args []string, out io.Writer) int {
	var r Request
	err := json.Unmarshal([]byte(strings.Join(args, "")), &r)
	var a Answer
	if err == nil {
		a, err = Look(ctx, r)
	}
	to := json.NewEncoder(out)
	if err != nil {
		_ = to.Encode(line{Error: err.Error()})
		return 1
	}
	for i := range a.Files {
		err = errors.Join(err, to.Encode(line{File: &a.Files[i]}))
	}
	for _, name := range a.Packages {
		err = errors.Join(err, to.Encode(line{Package: name}))
	}
	if errors.Join(err, to.Encode(line{End: true})) != nil {
		return 1
	}
	return 0
}

// Read reads what [Main] printed. The process may have been one of a user, who may have changed it: what it
// says counts for that user's results alone.
func Read(said string) (a Answer, err error) {
	lines := bufio.NewScanner(strings.NewReader(said))
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return Answer{}, fmt.Errorf("reading what the program that looks at files says: %w", err)
		}
		switch {
		case l.Error != "":
			return Answer{}, fmt.Errorf("looking at files: %s", l.Error)
		case l.End:
			return a, nil
		case l.File != nil:
			a.Files = append(a.Files, *l.File)
		case l.Package != "":
			a.Packages = append(a.Packages, l.Package)
		}
	}
	return Answer{}, errors.New("the program that looks at files ended before it was done")
}
