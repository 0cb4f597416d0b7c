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

// partsOfGlibc are the shared libraries that glibc consists of, on x86-64.
var partsOfGlibc = []string{
	"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "librt.so.1",
}

// needsAtMost returns an error if a program of Linux needs a shared library beside glibc, or a
// glibc later than a version such as 2.17.
func needsAtMost(path, glibc string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading the program %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading the libraries of %s: %w", path, err)
	}
	for _, library := range libraries {
		if !slices.Contains(partsOfGlibc, library) {
			return fmt.Errorf("%s needs %s, which is no part of glibc", path, library)
		}
	}
	needs, err := file.DynamicVersionNeeds()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) { // a static program has none
		return fmt.Errorf("reading the versions that %s needs: %w", path, err)
	}
	for _, library := range needs {
		for _, need := range library.Needs {
			if !atMost(need.Dep, glibc) {
				return fmt.Errorf("%s needs %s of %s, which glibc %s does not have", path, need.Dep, library.Name, glibc)
			}
		}
	}
	return nil
}

// atMost reports whether a glibc of a version has what symbols of a name such as GLIBC_2.9 need.
// Names that are no numbers stand for a feature of a later version, such as GLIBC_ABI_DT_RELR of
// 2.36, or for what is private.
func atMost(name, version string) bool {
	needed, ok := strings.CutPrefix(name, "GLIBC_")
	if !ok {
		return false
	}
	numbers := func(text string) (out []int, ok bool) {
		for part := range strings.SplitSeq(text, ".") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return nil, false
			}
			out = append(out, n)
		}
		return out, true
	}
	is, ok := numbers(needed)
	most, known := numbers(version)
	return ok && known && slices.CompareFunc(is, most, cmp.Compare[int]) <= 0
}
