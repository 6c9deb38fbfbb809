/** How much of it is sold; beside it stands the number. */
export function Bar({ percent }: { percent: number }) {
  return (
    <div class="ops-bar" aria-hidden="true">
      <div style={{ width: `${Math.min(100, percent)}%` }} />
    </div>
  );
}
