"""The equations of Liu, Wang and Ji (TPAMI 2021), of deep stacks and of three compared systems, literally.

The functions are dense and slow. Tests compare the fast modules with them, values and gradients. They share no code.
Dropout is left out. Nodes are numbered from 0; an edge (u, v) carries a message from u to v, repeated ones count again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, "_ _"]
Vector = Float[Tensor, " _"]
Layer = tuple[Matrix, Vector]  # W, b
Head = tuple[Matrix, Vector, Vector, Vector]  # W, a_src, a_dst, b
Kernel = tuple[Float[Tensor, "_ _ _"], Vector]  # W[output, input, tap], b
EdgeList = Sequence[tuple[int, int]]


def adjacency(edges: EdgeList, n: int) -> Matrix:
    """A + I: A[v, u] edges from u to v, loops replaced by exactly one a node."""
    A = torch.eye(n, dtype=torch.float64)
    for u, v in edges:
        if u != v:
            A[v, u] += 1
    return A


def relu(X: Matrix) -> Matrix:
    """max(x, 0)"""
    return torch.where(X > 0, X, torch.zeros_like(X))


def mlp(X: Matrix, layers: Sequence[Layer]) -> Matrix:
    """Z = relu(X W1 + b1) W2 + b2"""
    for W, b in layers[:-1]:
        X = relu(X @ W + b)
    W, b = layers[-1]
    return X @ W + b


def gcn(X: Matrix, edges: EdgeList, layers: Sequence[Layer]) -> Matrix:
    """Z = A^ relu(A^ X W1 + b1) W2 + b2,  A^ = D~^(-1/2) (A + I) D~^(-1/2),  D~ = diag of the sums of A + I"""
    A = adjacency(edges, len(X))
    D = torch.diag(A.sum(1) ** -0.5)
    A = D @ A @ D
    for W, b in layers[:-1]:
        X = relu(A @ X @ W + b)
    W, b = layers[-1]
    return A @ X @ W + b


def gat_head(X: Matrix, edges: EdgeList, head: Head) -> Matrix:
    """z_v = sum over u in N(v) + {v} of alpha_vu W x_u + b,
    alpha_vu = softmax over u of leakyrelu_0.2(a_dst^T W x_v + a_src^T W x_u)"""
    W, a_src, a_dst, b = head
    A, H, rows = adjacency(edges, len(X)), X @ W, []
    for v in range(len(X)):
        senders = [u for u in range(len(X)) for _ in range(int(A[v, u]))]
        scores = [a_dst @ H[v] + a_src @ H[u] for u in senders]
        weights = [torch.exp(score if score > 0 else 0.2 * score) for score in scores]
        messages = [weight / sum(weights) * H[u] for weight, u in zip(weights, senders, strict=True)]
        rows.append(torch.stack(messages).sum(0) + b)
    return torch.stack(rows)


def gat(X: Matrix, edges: EdgeList, layers: Sequence[Sequence[Head]]) -> Matrix:
    """Z = head(relu(concat of heads(X)))"""
    for heads in layers[:-1]:
        X = relu(torch.cat([gat_head(X, edges, head) for head in heads], dim=1))
    return torch.cat([gat_head(X, edges, head) for head in layers[-1]], dim=1)


def scores(Z: Matrix, c: Vector, b: float | Tensor = 0.0) -> Vector:
    """a_v = c^T z_v (+ b)  (equation 7)"""
    return torch.stack([c @ z for z in Z]) + b


def order(a: Vector) -> list[int]:
    """pi: the nodes by non-decreasing score, ties by node number"""
    return sorted(range(len(a)), key=lambda v: (a[v].item(), v))


def standardised(a: Vector) -> Vector:
    """a~ = (a - mean a) / (std a + 1e-6)"""
    mean = sum(a) / len(a)
    variance = sum((a_v - mean) ** 2 for a_v in a) / len(a)
    return (a - mean) / (torch.as_tensor(variance).sqrt() + 1e-6)


def convolution(S: Matrix, kernel: Kernel) -> Matrix:
    """T[p, o] = b[o] + sum over taps t and inputs i of W[o, i, t] S[p + t - s, i],  s = (k - 1) / 2;
    S is zero outside"""
    W, b = kernel
    k = W.shape[2]
    rows = []
    for p in range(len(S)):
        T_p = b
        for t in range(k):
            q = p + t - (k - 1) // 2
            if 0 <= q < len(S):
                T_p = T_p + W[:, :, t] @ S[q]
        rows.append(T_p)
    return torch.stack(rows)


def aggregate(Z: Matrix, factors: Vector, pi: Sequence[int], kernels: Sequence[Kernel]) -> Matrix:
    """S_p = a_pi(p) z_pi(p)  (equation 6),  T = conv2(relu(conv1(S))),  zhat_pi(p) = T_p"""
    T = torch.stack([factors[v] * Z[v] for v in pi])
    for kernel in kernels[:-1]:
        T = relu(convolution(T, kernel))
    T = convolution(T, kernels[-1])
    return torch.stack([T[pi.index(v)] for v in range(len(Z))])


def attention(Z: Matrix) -> Matrix:
    """zhat_v = sum over all u of softmax over u of (z_v^T z_u) z_u  (what the sorted order replaces)"""
    rows = []
    for z_v in Z:
        weights = [torch.exp(z_v @ z_u) for z_u in Z]
        rows.append(torch.stack([weight / sum(weights) * z_u for weight, z_u in zip(weights, Z, strict=True)]).sum(0))
    return torch.stack(rows)


def concat_head(Z: Matrix, Zhat: Matrix, W: Matrix, b: Vector) -> Matrix:
    """logits = [Z || Zhat] W + b"""
    return torch.cat([Z, Zhat], dim=1) @ W + b


def residual_head(Z: Matrix, Zhat: Matrix, W: Matrix) -> Matrix:
    """logits = Z + Zhat W  (preset robust)"""
    return Z + Zhat @ W


def sage_layer(X: Matrix, edges: EdgeList, W_root: Matrix, W_mean: Matrix, b: Vector) -> Matrix:
    """h_v = x_v W_root + mean over edges (u, v) of x_u W_mean + b; the mean over no edges is 0"""
    rows = []
    for v in range(len(X)):
        senders = [X[u] for u, w in edges if w == v]
        mean = sum(senders) / len(senders) if senders else torch.zeros_like(X[v])
        rows.append(X[v] @ W_root + mean @ W_mean + b)
    return torch.stack(rows)


def directed_layer(X: Matrix, edges: EdgeList, alpha: float, W_out: Matrix, W_in: Matrix, b: Vector) -> Matrix:
    """H' = alpha S X W_out + (1 - alpha) S^T X W_in + b,  S = D_out^(-1/2) A D_in^(-1/2),  A[u, v] edges from u to v"""
    A = torch.zeros(len(X), len(X), dtype=torch.float64)
    for u, v in edges:
        if u != v:
            A[u, v] += 1
    out, into = ([d**-0.5 if d > 0 else 0.0 for d in sums.tolist()] for sums in (A.sum(1), A.sum(0)))
    S = torch.diag(torch.tensor(out, dtype=torch.float64)) @ A @ torch.diag(torch.tensor(into, dtype=torch.float64))
    return alpha * S @ X @ W_out + (1 - alpha) * S.T @ X @ W_in + b


def batch_norm(H: Matrix, gamma: Vector, beta: Vector) -> Matrix:
    """y = gamma (h - mean) / sqrt(variance + 1e-5) + beta, for each column, variance with 1/n"""
    columns = []
    for h, g, b in zip(H.T, gamma, beta, strict=True):
        mean = sum(h) / len(h)
        variance = sum((h_v - mean) ** 2 for h_v in h) / len(h)
        columns.append(g * (h - mean) / (variance + 1e-5) ** 0.5 + b)
    return torch.stack(columns, dim=1)


def layer_norm(H: Matrix, gamma: Vector, beta: Vector) -> Matrix:
    """The same for each row, with gamma and beta for each column"""
    ones = torch.ones(len(H), dtype=torch.float64)
    return batch_norm(H.T, ones, 0 * ones).T * gamma + beta


def unit_rows(H: Matrix) -> Matrix:
    """h_v / |h_v|; a row of zeros stays"""
    return torch.stack([h / h.norm() if h.norm() > 0 else h for h in H])


def deep_layers(
    H: Matrix,
    convs: Sequence[Callable[[Matrix], Matrix]],
    norms: Sequence[Callable[[Matrix], Matrix]] = (),
    skips: Sequence[Callable[[Matrix], Matrix]] = (),
    row_norm: bool = False,
) -> list[Matrix]:
    """H_l = rows(relu(norm_l(conv_l(H_(l-1)) + skip_l(H_(l-1)))))"""
    layers = []
    for number, conv in enumerate(convs):
        T = conv(H) + skips[number](H) if skips else conv(H)
        T = norms[number](T) if norms else T
        H = unit_rows(relu(T)) if row_norm else relu(T)
        layers.append(H)
    return layers


def jump(layers: Sequence[Matrix], jumping: str) -> Matrix:
    """H_L, the elementwise maximum of all H_l, or [H_1 || ... || H_L]"""
    if jumping == "last":
        return layers[-1]
    return torch.cat(list(layers), dim=1) if jumping == "cat" else torch.stack(list(layers)).max(0).values


def shown_labels(known: Sequence[int], shown: Sequence[bool], classes: int) -> Matrix:
    """Y[v, c] = 1 where node v is shown and its label is c"""
    Y = torch.zeros(len(known), classes, dtype=torch.float64)
    for v, (label, is_shown) in enumerate(zip(known, shown, strict=True)):
        if is_shown and label >= 0:
            Y[v, label] = 1
    return Y


def mean_matrix(edges: EdgeList, n: int) -> Matrix:
    """M[u, v] = 1 / number of different v with an edge from u, u itself left out; a node without any has zeros"""
    targets = [sorted({v for source, v in edges if source == u != v}) for u in range(n)]
    M = torch.zeros(n, n, dtype=torch.float64)
    for u in range(n):
        for v in targets[u]:
            M[u, v] = 1 / len(targets[u])
    return M


def root_matrix(edges: EdgeList, n: int, loops: bool) -> Matrix:
    """S[u, v] = 1 / sqrt(d_u d_v) for each edge from u to v, d: targets of a node, 1 instead of 0"""
    pairs = {(u, v) for u, v in edges if u != v} | {(u, u) for u in range(n) if loops}
    d = [max(1, sum(source == u for source, _ in pairs)) for u in range(n)]
    S = torch.zeros(n, n, dtype=torch.float64)
    for u, v in pairs:
        S[u, v] = (d[u] * d[v]) ** -0.5
    return S


def feature_bank(
    X: Matrix,
    edges: EdgeList,
    operators: Sequence[tuple[str, int]],
    maps: Sequence[Layer],
    a: Vector,
    last: Layer,
    unit: bool,
    norm: bool,
    cat: bool,
    factor: float,
) -> Matrix:
    """H_k = factor softmax(a)_k norm(X_k W_k + b_k),  Z = relu([H_0 || ... || H_K]) W + b,  X_0 = X, X_k = P^k X"""
    back, n = [(v, u) for u, v in edges], len(X)
    P = {
        "out": mean_matrix(edges, n),
        "in": mean_matrix(back, n),
        "all": mean_matrix([*edges, *back], n),
        "root": root_matrix(edges, n, loops=False),
        "loop": root_matrix(edges, n, loops=True),
    }
    tables = [X, *(torch.linalg.matrix_power(P[name], hops) @ X for name, hops in operators)]
    parts = []
    for k, (table, (W, b)) in enumerate(zip(tables, maps, strict=True)):
        H = (unit_rows(table) if unit else table) @ W + b
        parts.append(factor * torch.exp(a[k]) / sum(torch.exp(a)) * (unit_rows(H) if norm else H))
    W, b = last
    return relu(torch.cat(parts, dim=1) if cat else sum(parts)) @ W + b


def gpr_gnn(X: Matrix, edges: EdgeList, layers: Sequence[Layer], gamma: Vector) -> Matrix:
    """Z = sum over k of gamma_k A^^k MLP(X),  A^ of GCN"""
    A = adjacency(edges, len(X))
    D = torch.diag(A.sum(1) ** -0.5)
    H = mlp(X, layers)
    Z = torch.zeros_like(H)
    for gamma_k in gamma:
        Z, H = Z + gamma_k * H, D @ A @ D @ H
    return Z


def acm_layer(
    X: Matrix, edges: EdgeList, W: Sequence[Matrix], w: Matrix, W_mix: Matrix, W_S: Matrix | None, relu_first: bool
) -> Matrix:
    """H' = 3 (alpha_L H_L + alpha_H H_H + alpha_I H_I),
    alpha = softmax(sigmoid([H_L w_L || H_H w_H || H_I w_I]) W_mix / 3);
    with H_S = relu(A W_S) it is the fourth, over 4 instead of 3, without the factor"""
    n = len(X)
    A = torch.zeros(n, n, dtype=torch.float64)
    for u, v in edges:
        A[v, u] = u != v
    eye = torch.eye(n, dtype=torch.float64)
    L = torch.diag(1 / (A + eye).sum(1)) @ (A + eye)
    if relu_first:
        H = [P @ relu(X @ W_P) for P, W_P in zip((L, eye - L, eye), W, strict=True)]
    else:
        H = [relu(P @ X @ W_P) for P, W_P in zip((L, eye - L, eye), W, strict=True)]
    if W_S is not None:
        H.append(relu(A @ W_S))
    rows = []
    for v in range(n):
        scores = torch.stack([1 / (1 + torch.exp(-(H_c[v] @ w_c))) for H_c, w_c in zip(H, w, strict=True)])
        weights = torch.exp(scores @ W_mix / len(H))
        alpha = (3 if W_S is None else 1) * weights / weights.sum()
        rows.append(torch.stack([alpha_c * H_c[v] for alpha_c, H_c in zip(alpha, H, strict=True)]).sum(0))
    return torch.stack(rows)


def description(X: Matrix, edges: EdgeList, directed: bool, name: str) -> Matrix:
    """Return a description of nodes with rows of length 1 (degrees as they are), one node after the other."""
    n = len(X)
    near: dict[str, list[set[int]]] = {prefix: [set() for _ in range(n)] for prefix in ("", "out-", "in-")}
    for s, t in edges:
        if s != t:
            both = [("out-", s, t), ("in-", t, s), ("", s, t), ("", t, s)]
            for prefix, v, u in both if directed else [(p, *pair) for p in near for pair in ((s, t), (t, s))]:
                near[prefix][v].add(u)
    if name == "degrees":
        return torch.tensor([[math.log(1 + len(near[p][v])) for p in ("out-", "in-")] for v in range(n)], dtype=X.dtype)
    prefix = next((p for p in ("out-", "in-") if name.startswith(p)), "")
    rows = X.clone()
    if name.endswith("links"):
        rows = torch.zeros(n, n, dtype=X.dtype)
        for v in range(n):
            for u in near[prefix][v]:
                rows[v, u] = sum(u in one for one in near[prefix]) ** -0.5
    for _ in range(2 if "two-hop" in name else name.endswith("means")):
        sums = [sum((rows[u] for u in near[prefix][v]), 0 * X[v]) for v in range(n)]
        rows = torch.stack([one / max(1, len(near[prefix][v])) for v, one in enumerate(sums)])
    lengths = [math.sqrt(sum(float(value) ** 2 for value in row)) for row in rows]
    return torch.stack([row / (length or 1) for row, length in zip(rows, lengths, strict=True)])
