package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// Step is one thing that a reader does: write a file, or run a command.
type Step struct {
	// Line is where the step begins in the page.
	Line int
	// File is the path of the file to write, Content its text; File is empty for
	// a command.
	File, Content string
	// Command is the command to run, Output the lines that it is expected to print.
	Command string
	Output  []string
}

// fileName matches the line before a block that is a file.
var fileName = regexp.MustCompile("`([^`]+)`:$")

// Parse returns the steps of a page.
func Parse(page string) ([]Step, error) {
	var steps []Step
	before := "" // the last line of prose with words in it
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		language, opens := strings.CutPrefix(lines[i], "```")
		if !opens {
			if strings.TrimSpace(lines[i]) != "" {
				before = lines[i]
			}
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block is not closed", begin)
		}
		block := lines[begin:i]
		if language == "console" {
			commands, err := console(block, begin+1)
			if err != nil {
				return nil, err
			}
			steps = append(steps, commands...)
		} else if found := fileName.FindStringSubmatch(before); found != nil {
			steps = append(steps, Step{Line: begin, File: found[1], Content: strings.Join(block, "\n") + "\n"})
		}
		before = ""
	}
	return steps, nil
}

// console returns the commands of a block whose first line has this number.
func console(block []string, first int) (steps []Step, err error) {
	for i, line := range block {
		command, starts := strings.CutPrefix(line, "$ ")
		more, continues := strings.CutPrefix(line, "> ")
		last := len(steps) - 1
		switch {
		case starts:
			steps = append(steps, Step{Line: first + i, Command: command})
		case last < 0:
			return nil, fmt.Errorf("line %d: %q comes before any command; a command begins with \"$ \"", first+i, line)
		case continues && len(steps[last].Output) == 0:
			steps[last].Command += "\n" + more
		default:
			steps[last].Output = append(steps[last].Output, line)
		}
	}
	return steps, nil
}
