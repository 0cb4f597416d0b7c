// Package question asks whoever types whether something is meant.
//
// It must not know any command.
package question

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Confirm returns nil once the answer to the question is yes. Where standard
// input is no terminal nobody can answer: then it is misuse, and --yes is
// named. Otherwise the error says that nothing was done, in these words.
func Confirm(ctx context.Context, streams terminal.Streams, question, nothing string) error {
	if !terminal.Is(streams.In) {
		return exit.Usage("%s That is to be confirmed, and standard input is no terminal: give --yes", question)
	}
	_, _ = fmt.Fprintf(streams.Err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	// A read from a terminal cannot be cancelled: after ^C it ends with the
	// process.
	go func() {
		line, _ := bufio.NewReader(streams.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
	}
	return exit.With(exit.Failure, fmt.Errorf("%s", nothing))
}
