// Package stagevolume is the CSI driver stage.muster.dev on a node of a cluster:
// volumes by which the workers of a stage of a pipeline reach who gives out its
// datums, without a network or a right of their own.
//
// Vocabulary: a post is the folder that such a volume shows: the program that
// workers run, a socket and a token. What is said on the socket the agent hands on
// to the manager's door, with its own credentials and the name of the pod; whether
// the pod is one of that stage is for the door to find out. The record of a post is
// written before it is shown and removed after it is not shown any more, so that an
// agent that is started anew serves the posts that there are.
//
// It must not know what is said, pipelines, or the API server.
package stagevolume
