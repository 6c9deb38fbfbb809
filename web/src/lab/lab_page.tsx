import type { PageProps } from "../app";
import { t } from "../strings";

export default function LabPage(_: PageProps) {
  return <section class="page">{t.brand}</section>;
}
