// Package fetcher fetches stored data, code and environments of users to a node, in a process
// without rights.
//
// Vocabulary:
//
//   - The fetcher is a process of its own, which the agent starts and starts again. It reads
//     commits, packs and archives of users, and writes them into the folders that the agent
//     hands it. It runs as a user of its own, in a network namespace without a network, and
//     under Landlock if the kernel has it. A fault in a reader is a fault of that user.
//   - A [Fetcher] is the agent's side. It asks the process over a Unix socket, and answers
//     the process over another: objects of namespaces for which something is fetched at the
//     time, by the agent's token, which the process never sees.
//   - A part is a path in a commit of a namespace. A tree is a snapshot of code, or an
//     environment.
//
// The agent does not trust answers and files of the process: it checks a key, and opens a folder
// without following links before it mounts the folder.
//
// The package must not know volumes, pods or the kubelet.
package fetcher
