package userfiles

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// current is the link to the folder with the payload's present state.
const current = "..data"

// Payload is a set of files by their paths, which is swapped as a whole.
type Payload map[string]PayloadFile

// PayloadFile is one of them.
type PayloadFile struct {
	Data []byte `json:"data"`
	Mode int32  `json:"mode"`
}

// Put makes a folder hold exactly these files, in one step
// for its readers: the files lie in a folder named for their content, and one
// link is exchanged. Nothing happens when the content is there already. Put follows links in the
// folder, so where a user may write there it is called as that user: [Files.Put].
func (files Payload) Put(folder string) error {
	state := ".." + digest(files)
	if target, err := os.Readlink(filepath.Join(folder, current)); err == nil && target == state {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := write(filepath.Join(folder, state), files); err != nil {
		return err
	}
	if err := link(state, filepath.Join(folder, current)); err != nil {
		return err
	}
	return tidy(folder, state, files)
}

// digest identifies a payload by its content.
func digest(files Payload) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		for _, part := range [][]byte{[]byte(name), f.Data, binary.LittleEndian.AppendUint32(nil, uint32(f.Mode))} {
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
			h.Write(part)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// write makes a folder with the files; what an interrupted write left there is
// removed first.
func write(folder string, files Payload) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, f := range files {
		target := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, f.Data, 0o600); err != nil {
			return err
		}
		if err := os.Chmod(target, os.FileMode(f.Mode)&os.ModePerm); err != nil {
			return err
		}
	}
	return nil
}

// link makes or exchanges a symbolic link in one step.
func link(target, name string) error {
	temporary := name + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}

// tidy makes the visible names and removes those that are no more, and old
// states.
func tidy(folder, state string, files Payload) error {
	visible := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(name, "/")
		visible[top] = true
	}
	for top := range visible {
		if err := link(filepath.Join(current, top), filepath.Join(folder, top)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("reading the volume's folder: %w", err)
	}
	for _, entry := range entries {
		if name := entry.Name(); !visible[name] && name != current && name != state {
			if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
