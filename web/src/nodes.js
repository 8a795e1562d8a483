// The names of nodes and their order. Callers without the right to read the cluster see the ids.
import { get } from './api.js';
import { usePoll } from './live.js';
import { canCluster } from './session.js';

// useNodeNames returns a function that turns the id of a node into its name. A node that has left the cluster keeps its
// id.
export function useNodeNames() {
  const poll = usePoll((signal) => (canCluster('read') ? get('/v1/cluster', {}, { signal }) : { nodes: [] }), 0);
  return (id) => poll.data?.nodes.find((n) => n.id === id)?.name || id;
}

export const byName = (nodes) => [...nodes].sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
