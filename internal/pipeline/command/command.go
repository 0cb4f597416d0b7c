package command

import (
	"path/filepath"
	"slices"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline/programs"
)

// Of returns the commands of a stage that sees the machine's files: its own, or those of its members.
func Of(stage *v1alpha1.Stage) []programs.Command {
	all := each(stage)
	for i := range all {
		all[i].Mount = stage.MountPath
	}
	return all
}

func each(stage *v1alpha1.Stage) []programs.Command {
	own := command(stage.Command, stage.Script, stage.Args)
	own.Lines = stage.Stdin
	all := []programs.Command{own}
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
func command(words []string, script string, args []string) programs.Command {
	if filepath.IsAbs(script) {
		words = []string{"python", script}
	}
	return programs.Command{Words: slices.Concat(words, args)}
}
