package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// writes counts the requests that change something, by "verb resource".
type writes map[string]float64

var (
	requestLine = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)
	labelPair   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// writes reads what the API server has counted so far.
func (p *plane) writes(ctx context.Context) (writes, error) {
	data, err := p.core.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	out := writes{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := requestLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range labelPair.FindAllStringSubmatch(m[1], -1) {
			labels[pair[1]] = pair[2]
		}
		switch labels["verb"] {
		case "GET", "LIST", "WATCH", "CONNECT":
			continue
		}
		if labels["resource"] == "" || labels["resource"] == "leases" || labels["dry_run"] != "" {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		what := labels["resource"]
		if labels["subresource"] != "" {
			what += "/" + labels["subresource"]
		}
		out[strings.ToLower(labels["verb"])+" "+what] += n
	}
	return out, lines.Err()
}

// since is what came after before.
func (w writes) since(before writes) writes {
	out := writes{}
	for what, n := range w {
		if more := n - before[what]; more > 0 {
			out[what] = more
		}
	}
	return out
}

// each says how many writes there were for each of n.
func (w writes) each(n int) string {
	var parts []string
	var sum float64
	for what, count := range w {
		sum += count
		if count >= float64(n)/20 {
			parts = append(parts, fmt.Sprintf("%.1f %s", count/float64(n), what))
		}
	}
	slices.Sort(parts)
	return fmt.Sprintf("%.1f writes (%s)", sum/float64(n), strings.Join(parts, ", "))
}
