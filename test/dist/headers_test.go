//go:build dist

package dist

import (
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tryMac reads the header of the command line for macOS.
func tryMac(part string, cpu macho.Cpu) func(*testing.T) {
	return func(t *testing.T) {
		program := filepath.Join(unpack(t, one(t, "muster-*-"+part+".tar.gz")), "muster")
		file, err := macho.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		if file.Cpu != cpu || file.Type != macho.TypeExec {
			t.Errorf("it is a %s for %s", file.Type, file.Cpu)
		}
		commandLineAlone(t, program)
	}
}

// tryWindows reads the headers of the command line for Windows.
func tryWindows(t *testing.T) {
	program := filepath.Join(unpack(t, one(t, "muster-*-windows-amd64.zip")), "muster.exe")
	file, err := pe.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || file.Characteristics&pe.IMAGE_FILE_EXECUTABLE_IMAGE == 0 {
		t.Errorf("it is for machine %#x, with characteristics %#x", file.Machine, file.Characteristics)
	}
	if header, ok := file.OptionalHeader.(*pe.OptionalHeader64); !ok || header.Subsystem != pe.IMAGE_SUBSYSTEM_WINDOWS_CUI {
		t.Errorf("it is no program of a console: %+v", file.OptionalHeader)
	}
	commandLineAlone(t, program)
}

// tryARM reads the header of the program for Linux on ARM: it needs no library,
// and carries a shim for ARM.
func tryARM(t *testing.T) {
	program := filepath.Join(unpack(t, one(t, "muster-*-linux-arm64.tar.gz")), "muster")
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != elf.EM_AARCH64 {
		t.Errorf("it is for %s", file.Machine)
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs %q: %v", libraries, err)
	}
	carries(t, program, elf.EM_AARCH64, 2)
}

// tryNVML reads the header of the program for Linux that reads NVIDIA's library.
func tryNVML(t *testing.T) {
	program := filepath.Join(unpack(t, one(t, "muster-*-linux-amd64.tar.gz")), "muster")
	needsGlibc(t, program, 17) // as docs/install.md has it
	listed(t, program)
	carries(t, program, elf.EM_X86_64, 2)
}

// tryLicenses looks that the list names Go and Kubernetes, with the words of their
// licences.
func tryLicenses(t *testing.T) {
	text, err := os.ReadFile(one(t, "muster-*-licenses.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"\nstd go1.", "\nk8s.io/kubernetes v", "Apache License", "Redistribution and use in source and binary forms"} {
		if !strings.Contains(string(text), words) {
			t.Errorf("the list has no %q", words)
		}
	}
}

// commandLineAlone looks that a program does not link the API server, and knows the
// version.
func commandLineAlone(t *testing.T, program string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" || module.Path == "go.etcd.io/etcd/server/v3" {
			t.Errorf("it links %s", module.Path)
		}
	}
	listed(t, program)
}

// listed looks that every module that a program links is in the list beside it.
func listed(t *testing.T, program string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(program), "LICENSES-OF-MODULES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 3 {
			have = append(have, fields[0]+" "+fields[1])
		}
	}
	for _, module := range info.Deps {
		if !slices.Contains(have, module.Path+" "+module.Version) {
			t.Errorf("it links %s %s, which the list of licences does not name", module.Path, module.Version)
		}
	}
	if len(info.Deps) == 0 {
		t.Error("it links no module at all")
	}
}

// carries counts the programs for a machine that a program has inside.
func carries(t *testing.T, program string, machine elf.Machine, want int) {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for rest := string(content[1:]); ; {
		at := strings.Index(rest, elf.ELFMAG+"\x02\x01\x01")
		if at < 0 {
			break
		}
		inner, err := elf.NewFile(strings.NewReader(rest[at:]))
		if err == nil && inner.Type == elf.ET_EXEC {
			found++
			if inner.Machine != machine {
				t.Errorf("it carries a program for %s", inner.Machine)
			}
		}
		rest = rest[at+4:]
	}
	if found != want {
		t.Errorf("it carries %d programs, want %d", found, want)
	}
}
