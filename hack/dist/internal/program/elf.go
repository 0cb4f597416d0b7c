package program

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Libraries returns the shared libraries that a program of Linux needs; a static
// one needs none.
func Libraries(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the program %s: %w", path, err)
	}
	names, err := file.ImportedLibraries()
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("reading the libraries of %s: %w", path, err)
	}
	return names, nil
}

// NewestGlibc returns the newest version of glibc whose symbols a program of Linux
// needs, such as 2.17; empty if it needs none.
func NewestGlibc(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the program %s: %w", path, err)
	}
	needs, err := file.DynamicVersionNeeds()
	if errors.Is(err, elf.ErrNoSymbols) { // static
		needs, err = nil, nil
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("reading the versions that %s needs: %w", path, err)
	}
	newest := ""
	for _, library := range needs {
		for _, need := range library.Needs {
			version, ok := strings.CutPrefix(need.Dep, "GLIBC_")
			if ok && Older(newest, version) {
				newest = version
			}
		}
	}
	return newest, nil
}

// Older compares versions such as 2.9 and 2.17, number by number. The empty one is
// the oldest.
func Older(a, b string) bool {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		left, _ := strconv.Atoi(x) // the empty version is 0
		right, _ := strconv.Atoi(y)
		return cmp.Compare(left, right)
	}) < 0
}
