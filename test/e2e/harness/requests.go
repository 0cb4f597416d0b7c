package harness

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
)

var (
	requestLine  = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)
	requestLabel = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// Requests are the requests that the API server has answered so far, by verb
// and resource: "PATCH pods/status", "POST pods dry" for what was only tried.
// Watches are left out.
func (m *Muster) Requests(ctx context.Context) (map[string]int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.server+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := m.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the API server's metrics: %s", answer.Status)
	}
	out := map[string]int{}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		found := requestLine.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range requestLabel.FindAllStringSubmatch(found[1], -1) {
			labels[pair[1]] = pair[2]
		}
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil || labels["verb"] == "WATCH" || labels["resource"] == "" {
			continue
		}
		out[requestName(labels)] += int(n)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return out, nil
}

func requestName(labels map[string]string) string {
	name := labels["verb"] + " " + labels["resource"]
	if labels["subresource"] != "" {
		name += "/" + labels["subresource"]
	}
	if labels["dry_run"] != "" {
		name += " dry"
	}
	return name
}
