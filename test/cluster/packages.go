package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Packages is the folder of a virtual environment with what a list of requirements of
// the repository names, made once.
func Packages(ctx context.Context, name, list string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", "environment"), name, list)
	var said strings.Builder
	cmd.Stderr = &said
	folder, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("installing what %s names: %w\n%s", list, err, said.String())
	}
	return strings.TrimSpace(string(folder)), nil
}

// Spark is an image with what the Spark stage of examples/pipeline needs, and a bash, by
// which Spark starts. It says by its name what is in it.
func Spark(ctx context.Context) (Image, error) {
	folder, err := Packages(ctx, "spark", "examples/pipeline/prepare/requirements.txt")
	if err != nil {
		return Image{}, err
	}
	image, err := Python(ctx, filepath.Join(folder, "bin", "python"))
	if err != nil {
		return image, err
	}
	bash, err := Program(ctx, "", "/bin/bash", "/usr/bin/bash")
	if err != nil {
		return image, err
	}
	have := map[string]bool{}
	for _, file := range image.Files {
		have[file.To] = true
	}
	for _, file := range bash.Files {
		if !have[file.To] {
			image.Files = append(image.Files, file)
		}
	}
	image.Name = "muster.test/spark:1"
	return image.Pinned()
}
