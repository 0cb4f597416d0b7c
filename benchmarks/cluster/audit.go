package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// auditPolicy has the API server note, when it has answered, who made, bound or
// deleted which pod, and nothing else: one short line each.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  namespaces: [` + namespace + `]
  verbs: [create, delete]
  resources:
  - group: ""
    resources: [pods, pods/binding]
- level: None
`

// audited returns the flags by which an API server writes its answers to a file
// in a folder, and the file.
func audited(dir string) (flags []string, file string, err error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, "", fmt.Errorf("writing what is to be audited: %w", err)
	}
	file = filepath.Join(dir, "audit.log")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + file, "--audit-log-mode=blocking", "--audit-log-maxsize=4096"}, file, nil
}
