// Package announcement writes events about lone pods as kube-scheduler does: Scheduled once
// a pod is bound, FailedScheduling while it waits. It owns their words and their bounds.
//
// The condition PodScheduled of a pod always has the present reason. An event tells when
// the kind of reason changed, so there are far fewer of them: see [Voice.Waits].
//
// It must not know how a pod is planned, nor gangs: their members are made with a node, and
// their reasons are in the status of the gang.
package announcement
