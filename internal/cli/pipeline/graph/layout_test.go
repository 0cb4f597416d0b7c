package graph

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// drawing is the content of an SVG of this package.
type drawing struct {
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
	Paths  []struct {
		D string `xml:"d,attr"`
	} `xml:"path"`
	Boxes []struct {
		Rect rect `xml:"rect"`
	} `xml:"g"`
}

type rect struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Width  float64 `xml:"width,attr"`
	Height float64 `xml:"height,attr"`
}

func (r rect) has(p point) bool {
	return p.x > r.X && p.x < r.X+r.Width && p.y > r.Y && p.y < r.Y+r.Height
}

type point struct{ x, y float64 }

// walk is the points of a path: those of each curve and line, close to one another.
func walk(t *testing.T, d string) []point {
	t.Helper()
	words := strings.NewReader(strings.NewReplacer("M", "M ", "C", "C ", "H", "H ").Replace(d))
	number := func() (n float64) {
		if _, err := fmt.Fscan(words, &n); err != nil {
			t.Fatalf("path %q: %v", d, err)
		}
		return n
	}
	var at point
	var points []point
	for {
		var command string
		if _, err := fmt.Fscan(words, &command); err != nil {
			return points
		}
		from := at
		switch command {
		case "M":
			at = point{number(), number()}
			points = append(points, at)
			continue
		case "H":
			at.x = number()
			for i := 1.0; i <= 64; i++ {
				points = append(points, point{from.x + (at.x-from.x)*i/64, at.y})
			}
		case "C":
			a, b := point{number(), number()}, point{number(), number()}
			at = point{number(), number()}
			for i := 1.0; i <= 64; i++ {
				points = append(points, bezier(from, a, b, at, i/64))
			}
		default:
			t.Fatalf("path %q has command %q", d, command)
		}
	}
}

func bezier(p, a, b, q point, at float64) point {
	c := 1 - at
	mix := func(p, a, b, q float64) float64 { return c*c*c*p + 3*c*c*at*a + 3*c*at*at*b + at*at*at*q }
	return point{mix(p.x, a.x, b.x, q.x), mix(p.y, a.y, b.y, q.y)}
}

// random is a graph of up to 16 nodes, in which each reads any of those before it.
func random(r *rand.Rand) []Node {
	nodes := make([]Node, 1+r.IntN(16))
	often := r.Float64()
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprint("n", i), Kind: "stage"}
		for k := range i {
			if r.Float64() < often {
				nodes[i].Reads = append(nodes[i].Reads, nodes[k].Name)
			}
		}
	}
	return nodes
}

// TestEdgesCrossNoBox: each edge begins at the box that is read and ends at the one that reads,
// crosses none, and all of the drawing is in its frame, whatever the graph.
func TestEdgesCrossNoBox(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		nodes := random(r)
		var d drawing
		if err := xml.Unmarshal([]byte(SVG("p", nodes)), &d); err != nil || len(d.Boxes) != len(nodes) {
			t.Fatalf("%d boxes, %v", len(d.Boxes), err)
		}
		boxes := map[string]rect{}
		for i, b := range d.Boxes { // which are in the order of the nodes
			boxes[nodes[i].Name] = b.Rect
		}
		apart(t, d)
		next := 0
		for _, n := range nodes {
			for _, from := range n.Reads {
				points := walk(t, d.Paths[next].D)
				next++
				a, b := boxes[from], boxes[n.Name]
				if points[0] != (point{a.X + a.Width, a.Y + a.Height/2}) || points[len(points)-1] != (point{b.X, b.Y + b.Height/2}) {
					t.Fatalf("the edge from %s to %s goes from %v to %v", from, n.Name, points[0], points[len(points)-1])
				}
				free(t, d, points, from+" to "+n.Name)
			}
		}
		if next != len(d.Paths) {
			t.Errorf("%d edges are drawn of %d", len(d.Paths), next)
		}
	}
}

// free fails the test if a path crosses a box or leaves the frame.
func free(t *testing.T, d drawing, path []point, name string) {
	t.Helper()
	for _, p := range path {
		if p.x < 0 || p.y < 0 || p.x > d.Width || p.y > d.Height {
			t.Fatalf("edge %s leaves the frame at %v", name, p)
		}
		for i, b := range d.Boxes {
			if b.Rect.has(p) {
				t.Fatalf("edge %s crosses box %d at %v", name, i, p)
			}
		}
	}
}

// apart fails the test if boxes touch one another or are not in the frame.
func apart(t *testing.T, d drawing) {
	t.Helper()
	for i, a := range d.Boxes {
		if a.Rect.X < 0 || a.Rect.Y < 0 || a.Rect.X+a.Rect.Width > d.Width || a.Rect.Y+a.Rect.Height > d.Height {
			t.Fatalf("box %d leaves the frame", i)
		}
		for k, b := range d.Boxes[:i] {
			if a.Rect.X < b.Rect.X+b.Rect.Width && b.Rect.X < a.Rect.X+a.Rect.Width && a.Rect.Y < b.Rect.Y+b.Rect.Height && b.Rect.Y < a.Rect.Y+a.Rect.Height {
				t.Fatalf("boxes %d and %d overlap", i, k)
			}
		}
	}
}

// TestSkips: an edge that passes a column has a lane of its own there.
func TestSkips(t *testing.T) {
	nodes := append([]Node{}, diamond...)
	nodes = append(nodes, Node{Name: "report", Kind: "stage", Reads: []string{"digits@main", "split", "after"}, Does: "report.py"})
	var d drawing
	if err := xml.Unmarshal([]byte(SVG("p", nodes)), &d); err != nil {
		t.Fatal(err)
	}
	level := 0
	for _, p := range d.Paths {
		level += strings.Count(p.D, "H")
	}
	if level != 4+3 {
		t.Errorf("%d columns are passed, want 7", level)
	}
}
