package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/muster-dev/muster/hack/dist/internal/archive"
	"github.com/muster-dev/muster/hack/dist/internal/chart"
	"github.com/muster-dev/muster/hack/dist/internal/ociimage"
	"github.com/muster-dev/muster/hack/dist/internal/program"
	"github.com/muster-dev/muster/hack/dist/internal/wheel"
)

// part is a file of a release.
type part struct {
	name, about string
	// make makes it and returns its path.
	make func(context.Context, *maker) (string, error)
	// asked: it is made where it is named, and not with all others.
	asked bool
}

const summary = "Gathers code, data and GPUs, runs the work, and gives every GPU back"

// wheelTags are the platforms of the wheel: those with the glibc that the program
// needs. The second is the older name of glibc 2.17, which is all that the pip of
// RHEL 8 knows.
var wheelTags = []string{"manylinux_" + strings.ReplaceAll(program.Glibc, ".", "_") + "_x86_64", "manylinux2014_x86_64"}

// parts are all of a release, in the order in which they are made.
var parts = []part{
	{name: "licenses", about: "the linked modules and their licences", make: by((*maker).licensesPart)},
	{name: "chart", about: "the Helm chart", make: by((*maker).chartPart)},
	{name: "linux-amd64-static", about: "tar.gz: Muster for Linux, without any library", make: archived(program.LinuxStatic)},
	{name: "wheel", about: "Python wheel: Muster for Linux with the package muster", make: by((*maker).wheelPart)},
	{name: "linux-amd64", about: "tar.gz: Muster for Linux, with NVML", make: archived(program.Linux)},
	{name: "darwin-arm64", about: "tar.gz: the command line alone for macOS", make: archived(program.MacARM)},
	{name: "darwin-amd64", about: "tar.gz: the command line alone for macOS on Intel", make: archived(program.Mac)},
	{name: "windows-amd64", about: "zip: the command line alone for Windows", make: archived(program.Windows)},
	{name: "linux-arm64", about: "tar.gz: Muster for Linux on ARM, without any library", make: archived(program.LinuxARM)},
	{name: "image", about: "OCI image for amd64 and arm64", make: imaged("", program.LinuxStatic, program.LinuxARM)},
	{name: "image-amd64", about: "OCI image for amd64 alone; only where it is named", make: imaged("-amd64", program.LinuxStatic), asked: true},
}

// by turns the arguments of a method around.
func by(method func(*maker, context.Context) (string, error)) func(context.Context, *maker) (string, error) {
	return func(ctx context.Context, m *maker) (string, error) { return method(m, ctx) }
}

// write writes a file under its name once it is whole.
func (m *maker) write(name string, write func(io.Writer) error) (string, error) {
	path := filepath.Join(m.out, name)
	half, err := os.Create(path + ".part")
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	defer func() { _ = os.Remove(half.Name()) }() // it has its name by then, or is not whole
	err = write(half)
	if closing := half.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(half.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}

func (m *maker) licensesPart(ctx context.Context) (string, error) {
	files, err := m.licences(ctx)
	if err != nil {
		return "", err
	}
	text := files[len(files)-1].Content
	return m.write("muster-"+m.version.Semantic+"-licenses.txt", func(out io.Writer) error {
		_, err := io.Copy(out, bytes.NewReader(text))
		return err
	})
}

func (m *maker) chartPart(context.Context) (string, error) {
	return chart.Write(filepath.Join(m.root, "charts", "muster"), m.out, m.version.Semantic, m.version.Program(), m.version.Time)
}

func (m *maker) wheelPart(ctx context.Context) (string, error) {
	licences, err := m.licences(ctx)
	if err != nil {
		return "", err
	}
	path, err := m.program(ctx, program.Linux)
	if err != nil {
		return "", err
	}
	w := wheel.Wheel{
		Project: filepath.Join(m.root, "python"), Program: path, Version: m.version.Python, Summary: summary,
		Tags: wheelTags, Licences: licences, Time: m.version.Time,
	}
	return m.write(w.Name(), w.Write)
}

// archived makes the archive of a program: a folder with it and its licences.
func archived(t program.Target) func(context.Context, *maker) (string, error) {
	return func(ctx context.Context, m *maker) (string, error) {
		licences, err := m.licences(ctx)
		if err != nil {
			return "", err
		}
		path, err := m.program(ctx, t)
		if err != nil {
			return "", err
		}
		folder := "muster-" + m.version.Semantic + "-" + t.String()
		files := []archive.File{{Name: folder + "/" + t.Executable(), From: path, Executable: true}}
		for _, file := range licences {
			file.Name = folder + "/" + file.Name
			files = append(files, file)
		}
		if t.OS == "windows" {
			return m.write(folder+".zip", func(out io.Writer) error { return archive.Zip(out, files, m.version.Time) })
		}
		return m.write(folder+".tar.gz", func(out io.Writer) error { return archive.TarGz(out, files, m.version.Time) })
	}
}

// imaged makes the image of static programs.
func imaged(suffix string, targets ...program.Target) func(context.Context, *maker) (string, error) {
	return func(ctx context.Context, m *maker) (string, error) {
		licences, err := m.licences(ctx)
		if err != nil {
			return "", err
		}
		image := ociimage.Image{
			Name: "muster.dev/muster", Tag: m.version.Program(), Licences: licences, Time: m.version.Time,
			Labels: map[string]string{
				v1.AnnotationTitle: "muster", v1.AnnotationDescription: summary, v1.AnnotationLicenses: "Apache-2.0",
				v1.AnnotationVersion: m.version.Program(), v1.AnnotationRevision: m.version.Commit,
				v1.AnnotationCreated: m.version.Time.Format("2006-01-02T15:04:05Z"),
			},
		}
		for _, t := range targets {
			path, err := m.program(ctx, t)
			if err != nil {
				return "", err
			}
			image.Programs = append(image.Programs, ociimage.Program{Arch: t.Arch, Path: path})
		}
		return m.write("muster-"+m.version.Semantic+suffix+".oci.tar", func(out io.Writer) error { return image.Write(out, m.out) })
	}
}
