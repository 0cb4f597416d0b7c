package kubectl

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/muster-dev/muster/internal/cli/connection"
)

// complete returns kubectl's completions of the last word.
func complete(ctx context.Context, f *connection.Factory, words []string) ([]string, cobra.ShellCompDirective) {
	if ctx == nil {
		ctx = context.Background()
	}
	routed, end, err := route(ctx, f, words)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = end() }()
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard}
	if err := run(ctx, append([]string{cobra.ShellCompRequestCmd}, routed...), streams); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return proposals(out.String())
}

// proposals reads what cobra prints for shells: a proposal a line, then :DIRECTIVE.
func proposals(text string) ([]string, cobra.ShellCompDirective) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
