package programs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// OfStage returns the files of this machine that the programs of a stage run, for a stage that sees
// the machine's files. It returns them in the order of their paths. In the folder of an
// environment, if one is given, programs are looked for first.
func OfStage(ctx context.Context, stage *v1alpha1.Stage, environment string) ([]File, error) {
	path := filepath.SplitList(os.Getenv("PATH"))
	if environment != "" {
		path = slices.Insert(path, 0, filepath.Join(environment, "bin"))
	}
	var all []File
	for _, c := range commandsOf(stage) {
		c.Path, c.Mount = path, stage.MountPath
		found, err := Find(ctx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(all, func(a, b File) bool { return a.Path == b.Path }), nil
}

// commandsOf are the commands of a stage: its own, or those of its members.
func commandsOf(stage *v1alpha1.Stage) []Command {
	own := command(stage.Command, stage.Script, stage.Args)
	own.Lines = stage.Stdin
	all := []Command{own}
	if stage.Spark != nil {
		all = append(all, command(nil, stage.Spark.Script, stage.Spark.Args))
	}
	if stage.Training == nil {
		return all
	}
	for i := range stage.Training.Roles {
		role := &stage.Training.Roles[i]
		all = append(all, command(role.Command, role.Script, role.Args))
		if role.Template == nil {
			continue
		}
		for k := range role.Template.Spec.Containers {
			c := &role.Template.Spec.Containers[k]
			all = append(all, command(c.Command, "", c.Args))
		}
	}
	return all
}

// command is a command, or a script, with arguments. A script that is no absolute path is in
// the stage's code.
func command(words []string, script string, args []string) Command {
	if filepath.IsAbs(script) {
		words = []string{"python", script}
	}
	return Command{Words: slices.Concat(words, args)}
}
