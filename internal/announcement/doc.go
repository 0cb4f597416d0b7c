// Package announcement writes events about lone pods as kube-scheduler does: Scheduled once a pod
// is bound, FailedScheduling while it waits. It owns their messages and their rate limits.
//
// The condition PodScheduled of a pod always has the present reason. An event tells when
// the kind of reason changed, so there are far fewer of them: see [Voice.Waits].
//
// It must not know the planning of pods, nor gangs: members of gangs are made with a node, and
// their reasons are in the status of the gang.
package announcement
