// Package visibility owns the rule which names of others a caller sees in the answers
// of Muster: top, why, plan, queues, status and the reasons in the status of objects.
//
// # Vocabulary
//
// A [Rule] is for one caller. Secret are the names of namespaces, jobs and pods, and
// commands, arguments and images. On a machine of several users (ShowUsers) everybody
// sees who holds which GPU and since when: login, queue, GPUs, time. On a cluster
// others have made-up names.
//
// [Logins] turns the names of users in the API into logins for display.
//
// # What it must not know
//
// Kubernetes, the scheduler, any answer, and who the caller is.
package visibility
