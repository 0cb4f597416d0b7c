package graph

import (
	"fmt"
	"html"
	"strings"

	"github.com/muster-dev/muster/internal/cli/terminal"
)

// Text draws nodes as trees: each below what it reads, with what reads it below
// it once.
func Text(nodes []Node, style terminal.Style) string {
	t := &text{style: style, nodes: nodes, shown: map[string]bool{}}
	for i := range nodes {
		if len(nodes[i].Reads) == 0 {
			t.node(&nodes[i], "", "")
		}
	}
	return t.out.String()
}

type text struct {
	out   strings.Builder
	style terminal.Style
	nodes []Node
	shown map[string]bool
}

// node draws a node and what reads it.
func (t *text) node(n *Node, first, rest string) {
	_, _ = fmt.Fprintf(&t.out, "%s%s", first, t.style.Paint(terminal.Bold, n.Name))
	var readers []*Node
	for i := range t.nodes {
		for _, from := range t.nodes[i].Reads {
			if from == n.Name {
				readers = append(readers, &t.nodes[i])
			}
		}
	}
	if t.shown[n.Name] {
		if len(readers) > 0 {
			_, _ = fmt.Fprint(&t.out, "  (see above)")
		}
		t.out.WriteByte('\n')
		return
	}
	t.shown[n.Name] = true
	if n.Kind == "stage" {
		_, _ = fmt.Fprintf(&t.out, "  %s", n.Does)
	}
	if n.Phase != "" {
		_, _ = fmt.Fprintf(&t.out, "  %s", t.style.Phase(n.Phase, n.Phase))
		if n.Message != "" {
			_, _ = fmt.Fprintf(&t.out, ": %s", strings.ReplaceAll(n.Message, "\n", " "))
		}
	}
	t.out.WriteByte('\n')
	for i, r := range readers {
		branch, below := "├─ ", "│  "
		if i == len(readers)-1 {
			branch, below = "└─ ", "   "
		}
		t.node(r, rest+branch, rest+below)
	}
}

// SVG draws nodes in columns: each right of all that it reads. No edge crosses a box.
func SVG(title string, nodes []Node) string {
	l := newLayout(nodes)
	width, height := l.size()
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">`+"\n<title>%[3]s</title>\n",
		width, height, html.EscapeString(title))
	for i := range nodes {
		for _, from := range nodes[i].Reads {
			_, _ = fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#888" stroke-width="1.5"/>`+"\n", l.edge(from, nodes[i].Name))
		}
	}
	for i := range nodes {
		x, y := l.box(nodes[i].Name)
		box(&b, &nodes[i], x, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func box(b *strings.Builder, n *Node, x, y int) {
	fill, round := "#eef3fb", 6
	switch {
	case n.Kind != "stage":
		fill, round = "#f4f4f4", boxHeight/2
	case n.Phase == "Succeeded":
		fill = "#e3f4e3"
	case n.Phase == "Failed":
		fill = "#fbe3e3"
	case n.Phase == "Running", n.Phase == "Planning":
		fill = "#fff6d8"
	}
	_, _ = fmt.Fprintf(b, `<g><rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="%s" stroke="#666"/>`, x, y, boxWidth, boxHeight, round, fill)
	line := func(dy int, weight, text string) {
		if text == "" {
			return
		}
		_, _ = fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle"%s>%s</text>`, x+boxWidth/2, y+dy, weight, html.EscapeString(terminal.Shorten(text, 32)))
	}
	name := 34
	if n.Kind == "stage" {
		name = 20
	}
	line(name, ` font-weight="bold"`, n.Name)
	line(36, "", n.Does)
	line(51, ` font-size="11" fill="#444"`, strings.TrimSuffix(n.Phase+": "+n.Message, ": "))
	_, _ = fmt.Fprintf(b, "<title>%s</title></g>\n", html.EscapeString(strings.TrimSpace(n.Name+" "+n.Writes+" "+n.Message)))
}
